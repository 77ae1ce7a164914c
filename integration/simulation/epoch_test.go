package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// epoch is the time of one consumer: from its making to the next change of the share, or the first loss that leaves
// ownership unverified.
type epoch struct {
	name    string
	reads   []int        // partitions, in order
	leaving map[int]bool // of these, those that another runner should read as soon as they are idle

	// Guarded by the inbox's lock.
	stopped  bool   // nothing is received any more
	received uint64 // deliveries
	acked    uint64 // acknowledgements sent
	broken   error  // why it has to be made anew
}

// newEpoch makes the consumer of these partitions and begins to receive.
func (in *inbox) newEpoch(ctx context.Context, reads []int) error {
	in.made++
	ep := &epoch{name: fmt.Sprintf("%s_%d", in.name, in.made), reads: reads, leaving: map[int]bool{}}
	if err := in.request(ctx, "create", func() error { return in.queue.create(ep.name, reads) }); err != nil {
		return err
	}
	in.mu.Lock()
	in.epoch = ep
	for _, f := range in.flights {
		in.unsure[f] = true
	}
	in.mu.Unlock()
	if err := in.request(ctx, "consume", func() error { return in.queue.consume(ep.name, in, ep) }); err != nil {
		in.breakEpoch(ep, err)
	}
	return nil
}

// breakEpoch says that an epoch, nil for the one in use, has to be followed by another.
func (in *inbox) breakEpoch(ep *epoch, why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if ep == nil {
		ep = in.epoch
	}
	if ep != nil {
		in.breakLocked(ep, why)
	}
}

func (in *inbox) breakLocked(ep *epoch, why error) {
	if ep != in.epoch || ep.broken != nil {
		return
	}
	ep.broken = why
	in.look()
}

// stopReading receives nothing any more.
func (in *inbox) stopReading() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.epoch != nil {
		in.epoch.stopped = true
	}
}

// deleteOwn deletes the consumer in use. What is in flight stays so; acknowledgements have no effect until it is
// redelivered. found is false if it was not stored any more.
func (in *inbox) deleteOwn(ctx context.Context) (found bool, err error) {
	in.mu.Lock()
	ep := in.epoch
	in.epoch = nil
	in.mu.Unlock()
	if ep == nil {
		return true, nil
	}
	return in.deleteConsumer(ctx, ep.name)
}

func (in *inbox) deleteConsumer(ctx context.Context, name string) (found bool, err error) {
	return ask(ctx, in.process, "delete", func() (bool, error) { return in.queue.remove(name, 0), nil })
}

// sweep deletes the consumers of runners that are not live, and this one's that it does not know of.
func (in *inbox) sweep(ctx context.Context, live []string) error {
	names, err := ask(ctx, in.process, "names", func() ([]string, error) { return in.queue.names(), nil })
	for _, name := range names {
		id, _, _ := strings.Cut(name, "_")
		if id != in.name && slices.Contains(live, id) {
			continue
		}
		in.note("%s: takes over from %s", in.name, name)
		if _, err := in.deleteConsumer(ctx, name); err != nil {
			return err
		}
	}
	return err
}

// checked is what a check has seen, for the next one to compare with the other side.
type checked struct {
	epoch     *epoch
	delivered uint64 // by the server
	acked     uint64 // by the inbox
}

// check makes the consumer anew if a delivery or an acknowledgement of before the last check has not arrived.
func (in *inbox) check(ctx context.Context, last checked) checked {
	in.mu.Lock()
	ep := in.epoch
	in.mu.Unlock()
	if ep == nil {
		return checked{}
	}
	i, err := ask(ctx, in.process, "info", func() (info, error) { return in.queue.info(ep.name) })
	if err != nil {
		if errors.Is(err, errGone) {
			in.breakEpoch(ep, err)
		}
		return checked{}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if last.epoch == ep && (ep.received < last.delivered || i.settled < last.acked) {
		in.breakLocked(ep, errMissing)
	}
	return checked{ep, i.delivered, ep.acked}
}
