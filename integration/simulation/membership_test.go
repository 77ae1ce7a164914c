package simulation_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/membership"
)

// network is the network of a runner's [membership.Membership].
type network struct{ *process }

func (n *network) Join(receive func([]byte)) (stop func(), err error) {
	n.world.mu.Lock()
	defer n.world.mu.Unlock()
	n.members.live = append(n.members.live, &member{n.process, receive})
	return func() {
		n.world.mu.Lock()
		defer n.world.mu.Unlock()
		n.members.live = slices.DeleteFunc(n.members.live, func(m *member) bool { return m.process == n.process })
	}, nil
}

func (n *network) Publish(heartbeat []byte) error {
	n.send("heartbeat", func() { n.broadcast(n.name, heartbeat) })
	return nil
}

// Unconnected never has a result: [world.miss] reports lost connections in place of probes.
func (n *network) Unconnected(ctx context.Context, _ string) bool {
	<-ctx.Done()
	return false
}

func (n *network) Listed(ctx context.Context) (listed []string, err error) {
	for err = errNoAnswer; err != nil && ctx.Err() == nil && !n.isDead(); {
		listed, err = ask(ctx, n.process, "listed", func() ([]string, error) { return n.listed(), nil })
	}
	return listed, err
}

func (n *network) Enlist(ctx context.Context, _ time.Time) (err error) {
	for err = errNoAnswer; err != nil && ctx.Err() == nil && !n.isDead(); {
		err = n.request(ctx, "enlist", func() error { n.list(n.name, membership.EntryTTL); return nil })
	}
	return err
}

func (n *network) Remove(context.Context) error {
	n.send("leave", func() { n.list(n.name, 0) })
	return nil
}

// members is the servers' part of membership: they forward heartbeats and keep a list. The world's lock guards it.
type members struct {
	live    []*member
	entries map[string]time.Time // when they expire
}

type member struct {
	*process
	receive func([]byte)
}

// broadcast forwards a heartbeat to all but its sender.
func (w *world) broadcast(from string, heartbeat []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members.live {
		if m.name != from {
			m.deliver(from, func() { m.receive(heartbeat) })
		}
	}
}

// miss makes the other runners count a runner as lost because its connection is closed, whether it is alive or not.
func (w *world) miss(name string) {
	r := w.draw("miss " + name)
	if r.percent(10) {
		return // the runner that should probe it is lost itself: the missing heartbeats will be noticed
	}
	time.Sleep(r.between(100*time.Millisecond, 300*time.Millisecond))
	heartbeat, _ := json.Marshal(map[string]any{"id": name, "gone": true})
	w.broadcast("", heartbeat)
}

// listed returns the runners in the list.
func (w *world) listed() (ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, till := range w.members.entries {
		if till.After(time.Now()) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (w *world) list(name string, ttl time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members.entries[name] = time.Now().Add(ttl)
}
