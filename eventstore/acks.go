package eventstore

import (
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// ackInbox takes the answers to all appends of a store. One subscription for all of them and a callback instead of a
// waiting goroutine each: an answer then costs one switch, to whoever flushes, as it does for a bare request.
type ackInbox struct {
	nc     *nats.Conn
	prefix string // of the reply subjects, with its dot

	mu      sync.Mutex
	next    uint64
	waiting map[uint64]*Log // by token: appends under way
}

func newAckInbox(nc *nats.Conn) *ackInbox {
	return &ackInbox{nc: nc, prefix: nc.NewInbox() + ".", waiting: make(map[uint64]*Log)}
}

func (a *ackInbox) subscribe() error {
	sub, err := a.nc.Subscribe(a.prefix+"*", a.deliver)
	if err != nil {
		return err
	}
	return sub.SetPendingLimits(-1, -1) // bounded by the logs that have an append under way
}

// expect returns the token of an append that is about to be published, and the subject to answer to.
func (a *ackInbox) expect(l *Log) (token uint64, reply string) {
	a.mu.Lock()
	a.next++
	token = a.next
	a.waiting[token] = l
	a.mu.Unlock()
	return token, a.prefix + strconv.FormatUint(token, 36)
}

// forget returns the log that waits for an answer, once.
func (a *ackInbox) forget(token uint64) *Log {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.waiting[token]
	delete(a.waiting, token)
	return l
}

func (a *ackInbox) deliver(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, a.prefix), 36, 64)
	if err != nil {
		return
	}
	if l := a.forget(token); l != nil {
		l.answered(token, m)
	}
}

// connectionLost tells all who wait that their answer may never come.
func (a *ackInbox) connectionLost() {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = make(map[uint64]*Log)
	a.mu.Unlock()
	for token, l := range waiting {
		l.lost(token, nats.ErrDisconnected)
	}
}
