package eventstore

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// A commit is sent before it would exceed these limits, so that it stays well below the server's max_payload.
const (
	maxCommitEvents = 64
	maxCommitBytes  = 256 << 10
)

// commit is a message with events that are not stored yet.
type commit struct {
	schemas.Commit
	blobs []blob // payloads that are stored in the object store before the commit
	size  int    // of all data, in the commit and in the object store
	msg   nats.Msg
	hash  string // of msg, once it is published
}

var commits = sync.Pool{New: func() any { return new(commit) }}

// release returns the memory of a stored commit to the pool.
func (c *commit) release() {
	c.Reset()
	*c = commit{Commit: c.Commit}
	commits.Put(c)
}

// full reports whether data of this size has to go into the next commit.
func (c *commit) full(size int) bool {
	return c.Len() > 0 && (c.Len() >= maxCommitEvents || c.Size()+size > maxCommitBytes)
}

// add adds an event with its encoded data. Data larger than threshold goes to the object store, and the commit has a
// reference to it.
func (c *commit) add(e *schemas.Event, data []byte, threshold int, blobPrefix string) error {
	if len(data) <= threshold {
		c.size += len(data)
		return c.Add(e, data, "")
	}
	b := blob{name: blobPrefix + digestOf(data), data: data}
	if pooled(data) {
		b.data = bytes.Clone(data)
	}
	if err := c.Add(e, nil, blobRef(b.name)); err != nil {
		return err
	}
	c.size += len(data)
	c.blobs = append(c.blobs, b)
	return nil
}

// seal makes the message. previous is the hash of the commit before, tail the stream sequence of the newest message on
// the subject.
func (c *commit) seal(subject, previous string, tail uint64) {
	c.msg = nats.Msg{Subject: subject, Header: c.Header(previous), Data: c.Payload()}
	c.expect(tail)
}

// expect sets the sequence that the server compares with that of the newest message on the subject. The hash does not
// depend on it.
func (c *commit) expect(tail uint64) {
	c.msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(tail, 10)}
}

// dataBuffers hold encoded data until it is in a commit.
var dataBuffers = sync.Pool{New: func() any { return new([]byte) }}

// withData calls f with the encoded data of an event. f must not keep data that is pooled.
func withData(e *schemas.Event, f func(data []byte) error) error {
	buffer := dataBuffers.Get().(*[]byte)
	defer dataBuffers.Put(buffer)
	data, err := schemas.AppendData((*buffer)[:0], e.Data)
	if err != nil {
		return err
	}
	if pooled(data) {
		*buffer = data
	}
	return f(data)
}

// pooled reports whether the memory of encoded data is used again. It then has to be copied to be kept.
func pooled(data []byte) bool { return cap(data) <= maxCommitBytes }

// send begins to store the first commit of the queue, unless that has begun already. mu is held.
func (l *Log) send() {
	if l.sending || len(l.queue) == 0 {
		return
	}
	l.sending = true
	c := l.queue[0]
	if len(c.blobs) > 0 {
		l.work(func(ctx context.Context) { l.storeBlobs(ctx, c) })
		return
	}
	l.backend.publish(l, c)
}

// publish publishes a commit. Its outcome comes by one of answered, disconnected and timedOut.
func (s *Store) publish(l *Log, c *commit) {
	c.seal(l.subject, l.hash, l.tail)
	token, reply := s.acks.expect(l)
	c.msg.Reply = reply
	l.token, l.sent = token, time.Now()
	err := s.nc.PublishMsg(&c.msg)
	c.hash = schemas.Hash(c.msg.Header, c.msg.Data) // while the server works
	if err != nil {
		s.acks.forget(token)
		l.unanswered(c, err)
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(s.o.AppendTimeout, l.timedOut)
	} else {
		l.timer.Reset(s.o.AppendTimeout)
	}
}

// answered receives the answer to the publish with this token.
func (l *Log) answered(token uint64, m *nats.Msg) {
	stream, err := parseAck(m)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != token {
		return
	}
	l.token = 0
	c := l.queue[0]
	switch {
	case err == nil:
		l.stored(c, stream)
	case natsio.Outdated(err):
		// The commit was published once and refused, so it is not stored. The message in its place may be another
		// writer's commit or a foreign message.
		l.work(func(ctx context.Context) { l.resolve(ctx, c, err) })
	default:
		l.unanswered(c, err)
	}
}

// disconnected is called when the connection was lost before the publish with this token was answered.
func (l *Log) disconnected(token uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == token {
		l.unanswered(l.queue[0], nats.ErrDisconnected)
	}
}

// timedOut is called when the timer fires.
func (l *Log) timedOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The timer may have fired for the publish before.
	if l.token != 0 && time.Since(l.sent) >= l.o.AppendTimeout {
		l.s.acks.forget(l.token)
		l.unanswered(l.queue[0], nats.ErrTimeout)
	}
}

// stored removes the first commit from the queue and sends the next. mu is held.
func (l *Log) stored(c *commit, stream uint64) {
	l.head, l.tail, l.hash, l.ownedAt = position{c.Last, stream}, stream, c.hash, l.sent
	l.queue[0], l.sending = nil, false
	l.queue = l.queue[1:]
	l.bytes -= c.size
	if l.hasSpace != nil {
		close(l.hasSpace)
		l.hasSpace = nil
	}
	for len(l.waiting) > 0 && l.waiting[0].seq <= c.Last {
		l.waiting[0].done <- nil
		l.waiting = l.waiting[1:]
	}
	c.release()
	if len(l.queue) > 0 {
		l.send()
		return
	}
	l.queue, l.waiting = nil, nil
	if l.timer != nil {
		l.timer.Stop()
	}
}

// fail makes err final and wakes all waiters. mu is held.
func (l *Log) fail(err error) {
	if l.err != nil {
		return
	}
	l.err = err
	if l.token != 0 {
		l.s.acks.forget(l.token)
		l.token = 0
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.stop != nil {
		l.stop()
	}
	for _, w := range l.waiting {
		w.done <- err
	}
	if l.hasSpace != nil {
		close(l.hasSpace)
	}
	l.queue, l.bytes, l.waiting, l.hasSpace = nil, 0, nil, nil
}

// conflict returns the error for a commit, from event seq on, in whose place another writer has extended the session.
func (l *Log) conflict(seq uint64, cause error) error {
	if l.s != nil {
		l.s.replicas.Store(nil) // read the number of replicas again: the stream may have been scaled up
	}
	return &schemas.ConflictError{Session: l.session, Seq: seq, Cause: cause}
}

func (l *Log) failed(c *commit, err error) error {
	return fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, c.First, err)
}
