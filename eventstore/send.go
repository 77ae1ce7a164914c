package eventstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// A commit is cut before it would be larger than this, so that it stays well below the server's max_payload.
const (
	maxCommitEvents = 64
	maxCommitBytes  = 256 << 10
)

// commit is events on their way to the log, in one message.
type commit struct {
	schemas.Commit
	blobs []blob // payloads that go to the object store before
	put   bool   // they are there
	size  int    // of all data, here and there
	msg   nats.Msg
	hash  string // of the message, once it is made
}

var commits = sync.Pool{New: func() any { return new(commit) }}

// release frees the memory of a commit that is no longer needed.
func (c *commit) release() {
	c.Reset()
	*c = commit{Commit: c.Commit}
	commits.Put(c)
}

// full reports whether data of this size has to go into the next commit.
func (c *commit) full(size int) bool {
	return c.Len() > 0 && (c.Len() >= maxCommitEvents || c.Size()+size > maxCommitBytes)
}

// take adds an event with its encoded data, or with a reference to it where it is larger than threshold. writer is how
// the names of this log's objects begin.
func (c *commit) take(e *schemas.Event, data []byte, threshold int, writer string) error {
	if len(data) <= threshold {
		c.size += len(data)
		return c.Add(e, data, "")
	}
	b := blob{writer + digestOf(data), bytes.Clone(data)}
	if err := c.Add(e, nil, blobRef(b.name)); err != nil {
		return err
	}
	c.size += len(data)
	c.blobs = append(c.blobs, b)
	return nil
}

// seal makes the message, which follows one with this hash; at this place in the stream is the newest on its subject.
func (c *commit) seal(subject, previous string, stream uint64) {
	header := c.Header(previous)
	c.msg = nats.Msg{Subject: subject, Header: header, Data: c.Payload()}
	c.expect(stream)
}

// expect sets the place of the newest message on the subject. The hash does not depend on it.
func (c *commit) expect(stream uint64) {
	c.msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(stream, 10)}
}

// dataBuffers hold encoded data until it is in a commit.
var dataBuffers = sync.Pool{New: func() any { return new([]byte) }}

// withData calls f with the encoded data of an event.
func withData(e *schemas.Event, f func(data []byte) error) error {
	buffer := dataBuffers.Get().(*[]byte)
	defer dataBuffers.Put(buffer)
	data, err := schemas.AppendData((*buffer)[:0], e.Data)
	if err != nil {
		return err
	}
	if cap(data) <= maxCommitBytes {
		*buffer = data
	}
	return f(data)
}

// send begins to store the first commit of the queue, unless one is under way. mu is held.
func (l *Log) send() {
	if l.sending || len(l.queue) == 0 {
		return
	}
	l.sending = true
	c := l.queue[0]
	if len(c.blobs) > 0 && !c.put {
		l.work(func(ctx context.Context) { l.storeBlobs(ctx, c) })
		return
	}
	l.keep.publish(l, c)
}

// publish sends a commit; the answer comes to answered, or lost is called.
func (s *Store) publish(l *Log, c *commit) {
	c.seal(l.subject, l.hash, l.tail)
	token, reply := s.acks.expect(l)
	c.msg.Reply = reply
	l.token, l.sent = token, time.Now()
	err := s.nc.PublishMsg(&c.msg)
	c.hash = schemas.Hash(c.msg.Header, c.msg.Data) // while the server works
	if err != nil {
		s.acks.forget(token)
		l.unknown(c, err)
		return
	}
	if l.timer == nil {
		l.timer = time.AfterFunc(s.o.AppendTimeout, l.timedOut)
	} else {
		l.timer.Reset(s.o.AppendTimeout)
	}
}

// answered takes the answer to the publish with this token.
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
	case refused(err):
		// Published once and refused: it is not in the log. What is may be another writer's, or nobody's.
		l.work(func(ctx context.Context) { l.findOut(ctx, c, err) })
	case unavailable(err) || errors.Is(err, errAnswer):
		l.unknown(c, err)
	default:
		l.fail(l.failed(c, err))
	}
}

// lost is called when no answer will come for the publish with this token.
func (l *Log) lost(token uint64, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == token {
		l.unknown(l.queue[0], cause)
	}
}

func (l *Log) timedOut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	// The timer may have fired for the publish before.
	if l.token != 0 && time.Since(l.sent) >= l.o.AppendTimeout {
		l.s.acks.forget(l.token)
		l.unknown(l.queue[0], nats.ErrTimeout)
	}
}

// stored takes a commit off the queue and sends what has gathered behind it. mu is held.
func (l *Log) stored(c *commit, stream uint64) {
	l.head, l.tail, l.hash, l.proven = position{c.Last, stream}, stream, c.hash, l.sent
	l.queue[0], l.sending = nil, false
	l.queue = l.queue[1:]
	l.bytes -= c.size
	if l.space != nil {
		close(l.space)
		l.space = nil
	}
	for len(l.flushes) > 0 && l.flushes[0].seq <= c.Last {
		l.flushes[0].done <- nil
		l.flushes = l.flushes[1:]
	}
	c.release()
	if len(l.queue) > 0 {
		l.send()
		return
	}
	l.queue, l.flushes = nil, nil
	if l.timer != nil {
		l.timer.Stop()
	}
}

// fail makes err final and wakes everybody. mu is held.
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
	for _, f := range l.flushes {
		f.done <- err
	}
	if l.space != nil {
		close(l.space)
	}
	l.queue, l.bytes, l.flushes, l.space = nil, 0, nil, nil
}

// conflict says that another writer has extended the session when the commit from seq on was to be stored.
func (l *Log) conflict(seq uint64, cause error) error {
	if l.s != nil {
		l.s.replicas.Store(nil) // to be looked at again: the stream may have got replicas
	}
	return &schemas.ConflictError{Session: l.session, Seq: seq, Cause: cause}
}

func (l *Log) failed(c *commit, err error) error {
	return fmt.Errorf("eventstore: append session %s seq %d: %w", l.session, c.First, err)
}
