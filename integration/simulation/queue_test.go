package simulation_test

import (
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// The times of the inbox, as they are by default (package bus).
const (
	partitions   = 4
	ackWait      = 6 * time.Second
	pinnedTTL    = 4 * time.Second
	memberTTL    = 4 * time.Second
	handoverWait = 5 * time.Second
	pullExpiry   = pinnedTTL / 2
	// waitForEarlier is how long a command waits for an earlier one that is with another runner.
	waitForEarlier = ackWait + time.Second
	// duplicateWindow is how long the queues know the id of a message.
	duplicateWindow = 10 * time.Minute
)

// message is a command in the work queue.
type message struct {
	seq        uint64
	partition  int
	cmd        schemas.Command
	refusal    string // of a message that is no command
	deliveries int
	out        bool        // delivered, or not to be delivered yet
	timer      *time.Timer // ends that
}

// queue is the server's side of the inbox: a work queue in partitions, each read by the one runner that is pinned to it.
// The world's lock guards it.
type queue struct {
	w        *world
	seq      uint64
	messages []*message // in order
	parts    [partitions]part
	members  map[string]time.Time // when they cease to count as live
	settled  int
}

// part is the consumer of a partition.
type part struct {
	pinned  *reader
	pinTill time.Time // when it ends unless its reader pulls
	pulls   []pull    // open requests, one per reader
}

type pull struct {
	by         *reader
	sent, till time.Time
}

func newQueue(w *world) *queue { return &queue{w: w, members: map[string]time.Time{}} }

func partitionOf(session string) int { return int(hash(session) % partitions) }

// put stores a message and returns its sequence.
func (q *queue) put(cmd schemas.Command, refusal string) uint64 {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	q.seq++
	m := &message{seq: q.seq, partition: partitionOf(cmd.Session), cmd: cmd, refusal: refusal}
	q.messages = append(q.messages, m)
	q.w.tell("queue: %d is %s %s of %s", m.seq, cmd.Data.CommandKind(), cmd.ID, cmd.Session)
	q.serve(m.partition)
	return m.seq
}

func (q *queue) find(seq uint64) *message {
	for _, m := range q.messages {
		if m.seq == seq {
			return m
		}
	}
	return nil
}

// before returns the sequences of a session's messages in the queue before one.
func (q *queue) before(session string, seq uint64) (earlier []uint64) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	for _, m := range q.messages {
		if m.seq < seq && m.cmd.Session == session {
			earlier = append(earlier, m.seq)
		}
	}
	return earlier
}

// pull asks for the messages of a partition, for a while.
func (q *queue) pull(rd *reader, sent time.Time) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	p := &q.parts[rd.n]
	p.forget(rd)
	p.pulls = append(p.pulls, pull{rd, sent, time.Now().Add(pullExpiry)})
	if p.pinned == rd {
		p.pinTill = time.Now().Add(pinnedTTL)
	}
	q.serve(rd.n)
}

func (p *part) forget(rd *reader) {
	p.pulls = slices.DeleteFunc(p.pulls, func(o pull) bool { return o.by == rd })
}

// leave takes back a reader's request, and its pin.
func (q *queue) leave(rd *reader) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	p := &q.parts[rd.n]
	p.forget(rd)
	if p.pinned == rd {
		p.pinned = nil
	}
	q.serve(rd.n)
}

// serve delivers what there is to the reader that is pinned, and pins one if none is. What was delivered before comes first.
func (q *queue) serve(n int) {
	now := time.Now()
	p := &q.parts[n]
	p.pulls = slices.DeleteFunc(p.pulls, func(o pull) bool { return !o.till.After(now) })
	if p.pinned != nil && !p.pinTill.After(now) {
		p.pinned = nil
	}
	if p.pinned == nil && len(p.pulls) > 0 {
		p.pinned, p.pinTill = p.pulls[0].by, now.Add(pinnedTTL)
		q.w.tell("queue: partition %d is read by %s", n, p.pinned.name)
	}
	open := slices.IndexFunc(p.pulls, func(o pull) bool { return o.by == p.pinned })
	if open < 0 {
		return
	}
	for _, again := range []bool{true, false} {
		for _, m := range q.messages {
			if m.partition == n && !m.out && m.deliveries > 0 == again {
				q.deliver(m, p.pulls[open])
			}
		}
	}
}

func (q *queue) deliver(m *message, to pull) {
	m.deliveries++
	m.out = true
	m.timer = time.AfterFunc(ackWait+time.Duration(m.seq)*time.Microsecond, func() { q.again(m) }) // no two at the same moment
	rd := to.by
	q.w.tell("queue: delivers %d, %s, to %s, time %d", m.seq, m.cmd.ID, rd.name, m.deliveries)
	d := &delivery{reader: rd, asked: to.sent, told: to.sent, seq: m.seq, cmd: m.cmd, refusal: m.refusal, count: m.deliveries}
	time.AfterFunc(q.w.draw(d.what("comes")).latency(), func() { rd.receive(d) })
}

// again makes a message free to be delivered.
func (q *queue) again(m *message) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	if q.find(m.seq) != nil {
		m.out = false
		q.serve(m.partition)
	}
}

// ack settles a message.
func (q *queue) ack(seq uint64, by string) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	m := q.find(seq)
	if m == nil {
		return
	}
	m.timer.Stop()
	q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o == m })
	q.settled++
	q.w.tell("%s: acknowledges %d, %s", by, seq, m.cmd.ID)
	q.w.checkAck(m, by)
}

// nak gives a message back.
func (q *queue) nak(seq uint64, delay time.Duration) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	m := q.find(seq)
	switch {
	case m == nil || !m.out:
	case delay > 0:
		m.timer.Reset(delay)
	default:
		m.timer.Stop()
		m.out = false
		q.serve(m.partition)
	}
}

// alive says that a message is being worked on.
func (q *queue) alive(seq uint64) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	if m := q.find(seq); m != nil && m.out {
		m.timer.Reset(ackWait)
	}
}

// join counts a runner as live for a while, and returns all that are.
func (q *queue) join(name string) (live []string) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	now := time.Now()
	q.members[name] = now.Add(memberTTL)
	for other, till := range q.members {
		if till.After(now) {
			live = append(live, other)
		} else {
			delete(q.members, other)
		}
	}
	slices.Sort(live)
	return live
}

// part takes a runner out of those that are live.
func (q *queue) part(name string) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	delete(q.members, name)
}
