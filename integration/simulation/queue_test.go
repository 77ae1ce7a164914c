package simulation_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

const (
	partitions = 4
	// goneAfter is how long after its deletion a reader misses the heartbeats of a consumer.
	goneAfter = 2 * time.Second
	// duplicateWindow is how long the queues remember the id of a message.
	duplicateWindow = 10 * time.Minute
)

// message is a command in the work queue.
type message struct {
	seq        uint64
	partition  int
	cmd        schemas.Command
	refusal    string // why the message is not a valid command
	deliveries int
	settled    bool // although it is stored: its deletion was lost
}

// delivery is a message in flight to a runner.
type delivery struct {
	*message
	nth uint64 // number among the deliveries of its consumer
}

// queue is the server's side of the inbox: a work queue and its consumers. The world's lock guards it.
type queue struct {
	w         *world
	seq       uint64
	messages  []*message  // in order
	consumers []*consumer // in order
	// shared are the sessions that had a message which two consumers delivered and one of them settled.
	shared map[string]bool
}

// consumer delivers the messages of some partitions in the order of the stream, each once.
type consumer struct {
	name      string
	reads     []int
	in        *inbox // that receives; nil before it does
	reader    *reader.Consumer
	cursor    uint64 // sequence of the last message delivered
	delivered uint64 // deliveries
	pending   map[uint64]bool
	skips     uint64 // the sequence of a message that it does not deliver; 0 for none
}

func newQueue(w *world) *queue { return &queue{w: w, shared: map[string]bool{}} }

func partitionOf(session string) int { return int(hash(session) % partitions) }

// put stores a message and returns its sequence.
func (q *queue) put(cmd schemas.Command, refusal string) uint64 {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	q.seq++
	cmd.InboxPosition = schemas.InboxPosition{Inbox: "AGENT_CMD", StreamSeq: q.seq}
	m := &message{seq: q.seq, partition: partitionOf(cmd.Session), cmd: cmd, refusal: refusal}
	q.messages = append(q.messages, m)
	q.w.tell("queue: %d is %s %s of %s", m.seq, cmd.Data.CommandKind(), cmd.ID, cmd.Session)
	for _, c := range q.consumers {
		q.serve(c)
	}
	return m.seq
}

// create creates a consumer. A work queue has one for each partition, but servers of a cluster may create two at the
// same time. A consumer is stored in the memory of a server and is sometimes lost with it. create returns the number
// of messages that are stored for it.
func (q *queue) create(name string, reads []int) (waiting uint64, err error) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	r := q.w.draw("create " + name)
	overlap := slices.ContainsFunc(q.consumers, func(c *consumer) bool {
		return slices.ContainsFunc(c.reads, func(n int) bool { return slices.Contains(reads, n) })
	})
	if overlap && (q.w.healed || !r.percent(10)) {
		return 0, reader.ErrOverlap
	}
	q.w.tell("queue: consumer %s of %v, overlapping %v", name, reads, overlap)
	c := &consumer{name: name, reads: reads, pending: map[uint64]bool{}}
	q.consumers = append(q.consumers, c)
	if !q.w.healed && r.percent(5) {
		time.AfterFunc(r.about(5*time.Second), func() {
			if q.w.faulty() {
				q.remove(name, goneAfter)
			}
		})
	}
	for _, m := range q.messages {
		if !slices.Contains(reads, m.partition) {
			continue
		}
		if waiting++; c.skips == 0 && !q.w.healed && r.percent(10) { // as consumers of nats-server do
			c.skips = m.seq
			q.w.tell("queue: consumer %s skips %d", name, m.seq)
		}
	}
	return waiting, nil
}

// first returns the sequence of the first stored message of a session behind after; 0 if there is none.
func (q *queue) first(p reader.Place, after uint64) uint64 {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	for _, m := range q.messages {
		if m.seq > after && m.partition == p.Partition && m.cmd.Session == p.Session {
			return m.seq
		}
	}
	return 0
}

// stored returns how many messages of each session are stored in some partitions.
func (q *queue) stored(reads []int) map[reader.Place]int {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	all := map[reader.Place]int{}
	for _, m := range q.messages {
		if slices.Contains(reads, m.partition) {
			all[reader.Place{Partition: m.partition, Session: m.cmd.Session}]++
		}
	}
	return all
}

// consume connects an inbox to the deliveries of a consumer.
func (q *queue) consume(rc *reader.Consumer, in *inbox) error {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	c := q.find(rc.Name)
	if c == nil {
		return reader.ErrConsumerNotFound
	}
	c.in, c.reader = in, rc
	q.serve(c)
	return nil
}

// find returns the consumer with this name, or nil.
func (q *queue) find(name string) *consumer {
	for _, c := range q.consumers {
		if c.name == name {
			return c
		}
	}
	return nil
}

// serve delivers all messages that are due.
func (q *queue) serve(c *consumer) {
	if c.in == nil {
		return
	}
	for _, m := range q.messages {
		if m.seq <= c.cursor || m.seq == c.skips || !slices.Contains(c.reads, m.partition) {
			continue
		}
		m.deliveries, m.settled = m.deliveries+1, false
		c.delivered++
		c.cursor, c.pending[m.seq] = m.seq, true
		q.w.tell("queue: delivers %d, %s, by %s, time %d", m.seq, m.cmd.ID, c.name, m.deliveries)
		d, in, rc := delivery{m, c.delivered}, c.in, c.reader
		if q.w.healed || !q.w.draw(fmt.Sprintf("delivers %d %s", m.seq, c.name)).permille(8) {
			in.deliver(c.name, func() { in.receive(rc, d) })
		}
	}
}

// remove deletes a consumer, and reports whether it existed. Its reader learns of it at once, or after some time.
// Acknowledgements of its deliveries have no effect from then on.
func (q *queue) remove(name string, notice time.Duration) bool {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	c := q.find(name)
	if c == nil {
		return false
	}
	q.w.tell("queue: no consumer %s any more", name)
	q.consumers = slices.DeleteFunc(q.consumers, func(o *consumer) bool { return o == c })
	if c.in == nil {
		return true
	}
	if !q.w.healed && q.w.draw("gone "+name).percent(10) {
		notice = goneAfter // the answer to its request was lost
	}
	time.AfterFunc(notice, func() {
		c.in.deliver(name, func() { c.in.reader.Break(c.reader, reader.ErrConsumerNotFound) })
	})
	return true
}

// names returns the names of all consumers.
func (q *queue) names() (names []string) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	for _, c := range q.consumers {
		names = append(names, c.name)
	}
	return names
}

// reads returns the partitions of a consumer.
func (q *queue) reads(name string) ([]int, error) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	c := q.find(name)
	if c == nil {
		return nil, reader.ErrConsumerNotFound
	}
	return slices.Clone(c.reads), nil
}

// has reports whether a message is stored.
func (q *queue) has(seq uint64) bool {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	return slices.ContainsFunc(q.messages, func(m *message) bool { return m.seq == seq })
}

// info returns how many messages a consumer has delivered, and how many of them were settled.
type info struct{ delivered, settled uint64 }

func (q *queue) info(name string) (info, error) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	c := q.find(name)
	if c == nil {
		return info{}, reader.ErrConsumerNotFound
	}
	return info{c.delivered, c.delivered - uint64(len(c.pending))}, nil
}

// ack settles a message if its consumer exists.
func (q *queue) ack(name string, seq uint64, by string) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	c := q.find(name)
	if c == nil || !c.pending[seq] {
		q.w.tell("%s: acknowledges %d too late", by, seq)
		return
	}
	delete(c.pending, seq)
	at := slices.IndexFunc(q.messages, func(m *message) bool { return m.seq == seq })
	if at < 0 {
		return
	}
	m := q.messages[at]
	if slices.ContainsFunc(q.consumers, func(o *consumer) bool { return o.pending[seq] }) {
		q.shared[m.cmd.Session] = true
	}
	q.w.tell("%s: acknowledges %d, %s", by, seq, m.cmd.ID)
	m.settled = true
	q.w.checkAck(m, by)
	if r := q.w.draw(fmt.Sprintf("deletes %d %s", seq, name)); !q.w.healed && r.percent(3) {
		q.w.tell("queue: the deletion of %d is lost", seq)
		time.AfterFunc(r.between(0, 2*time.Minute), func() { q.repair(c, m) })
		return
	}
	q.messages = slices.Delete(q.messages, at, at+1)
}

// repair deletes a settled message, unless its consumer is gone: then the next one delivers it again.
func (q *queue) repair(c *consumer, m *message) {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	if m.settled && slices.Contains(q.consumers, c) {
		q.messages = slices.DeleteFunc(q.messages, func(o *message) bool { return o == m })
	}
}
