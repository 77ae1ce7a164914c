package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// ackWait is for ever: what is in flight comes again with the next consumer, and never by a clock.
	ackWait = 365 * 24 * time.Hour
	// A request for messages is renewed in pullExpiry. Without a word of the consumer for twice pullHeartbeat it is gone.
	pullExpiry    = 10 * time.Second
	pullHeartbeat = time.Second
	apiTimeout    = 5 * time.Second // of one request about consumers
)

// An epoch is the time of one consumer: from its making to the next change of the share, or the first loss that leaves
// ownership unverified.
type epoch struct {
	name    string
	reads   []int        // partitions, in order
	leaving map[int]bool // of these, those that another runner should read as soon as they are idle
	waiting uint64       // messages that were there when it was made: a lost runner may have begun them
	suspect bool         // such a runner there may have been
	consume jetstream.ConsumeContext

	// Guarded by the inbox's lock.
	received uint64 // deliveries
	acked    uint64 // acknowledgements sent
	broken   error  // why it has to be made anew
}

// newEpoch is the epoch of a consumer that has not been made yet.
func (in *Inbox) newEpoch(reads []int, suspect bool) *epoch {
	return &epoch{name: in.o.RunnerID + "_" + rand.Text(), reads: reads, leaving: map[int]bool{}, suspect: suspect}
}

// of is the name of the epoch's consumer if it reads just these partitions, else "".
func (ep *epoch) of(reads []int) string {
	if ep == nil || !slices.Equal(ep.reads, reads) {
		return ""
	}
	return ep.name
}

// begin makes the consumer and begins to receive. Asked again after a time-out it takes the consumer that was made
// meanwhile. It fails with errOverlap while another runner's consumer has one of the partitions.
func (in *Inbox) begin(ctx context.Context, ep *epoch) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c, err := in.stream.CreateConsumer(ctx, in.consumerConfig(ep))
	if err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == codeOverlap {
			return errOverlap
		}
		return fmt.Errorf("inbox: consumer %s of %s: %w", ep.name, schemas.StreamCommands, err)
	}
	ep.waiting = c.CachedInfo().NumPending
	in.mu.Lock()
	in.epoch = ep
	for _, f := range in.flights {
		in.unsure[f] = struct{}{}
	}
	in.mu.Unlock()
	ep.consume, err = c.Consume(func(msg jetstream.Msg) { in.receive(ep, msg) },
		jetstream.PullMaxMessages(pullMessages), jetstream.PullExpiry(pullExpiry), jetstream.PullHeartbeat(pullHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { in.breakEpoch(ep, err) }))
	if err != nil {
		in.breakEpoch(ep, err)
		return fmt.Errorf("inbox: consume from %s: %w", ep.name, err)
	}
	return nil
}

// codeOverlap is the server's refusal of a consumer for what another consumer of the work queue has already.
const codeOverlap jetstream.ErrorCode = 10100

var (
	errOverlap = errors.New("inbox: another runner's consumer has one of the partitions")
	errShared  = errors.New("another runner has read some of the partitions too")
)

// consumerConfig keeps the consumer's state in memory: the queue itself is on disk, and what is lost with the server is
// only what it had delivered to whom. MaxDeliver stays open: the server would keep a message that it does not deliver
// any more for ever, out of sight. Giving up is the inbox's own business.
func (in *Inbox) consumerConfig(ep *epoch) jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		Durable: ep.name, Description: "a runner's share of the inbox", AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: ackWait, MaxAckPending: in.o.MaxInFlight, MaxDeliver: -1, MemoryStorage: true,
	}
	for _, n := range ep.reads {
		c.FilterSubjects = append(c.FilterSubjects, fmt.Sprintf("%s.cmd.%d.*.*", in.conn.Subjects().Prefix(), n))
	}
	return c
}

// partitionOf is the partition in the subject of a stored message, -1 if there is none.
func partitionOf(subjects schemas.Subjects, subject string) int {
	token, _, _ := strings.Cut(strings.TrimPrefix(subject, subjects.Prefix()+".cmd."), ".")
	n, err := strconv.Atoi(token)
	if err != nil {
		return -1
	}
	return n
}

// breakEpoch says that an epoch, nil for the one in use, has to be followed by another.
func (in *Inbox) breakEpoch(ep *epoch, why error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if ep == nil {
		ep = in.epoch
	}
	if ep != nil {
		in.breakLocked(ep, why)
	}
}

func (in *Inbox) breakLocked(ep *epoch, why error) {
	if ep != in.epoch || ep.broken != nil {
		return
	}
	ep.broken = why
	in.look()
}

// stopReading receives nothing any more.
func (in *Inbox) stopReading() {
	in.mu.Lock()
	ep := in.epoch
	in.mu.Unlock()
	if ep != nil && ep.consume != nil {
		ep.consume.Stop()
	}
}

// deleteOwn deletes the consumer in use. What is in flight stays so; acknowledgements have no effect until it is
// delivered again. found is false if it was gone: another runner has taken over, or a server was lost.
func (in *Inbox) deleteOwn(ctx context.Context) (found bool, err error) {
	in.mu.Lock()
	ep := in.epoch
	in.epoch = nil
	in.mu.Unlock()
	if ep == nil {
		return true, nil
	}
	return in.deleteConsumer(ctx, ep.name)
}

func (in *Inbox) deleteConsumer(ctx context.Context, name string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	err = in.stream.DeleteConsumer(ctx, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, nil
	}
	return err == nil, err
}

// sweep deletes the consumers of runners that are not live, and this one's, but for one that it has asked for. It
// reports whether there was one: its runner has died without a goodbye. The names are asked for and not the list, for
// which a cluster asks the leader of every consumer.
func (in *Inbox) sweep(ctx context.Context, live []string, asked string) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	names := in.stream.ConsumerNames(ctx)
	for name := range names.Name() {
		id := name[:max(strings.LastIndexByte(name, '_'), 0)]
		if name == asked || id != in.o.RunnerID && slices.Contains(live, id) {
			continue
		}
		found = true
		in.o.Logger.Info("taking over from a runner that is gone", "consumer", name)
		if _, err := in.deleteConsumer(ctx, name); err != nil {
			return found, fmt.Errorf("inbox: delete consumer %s: %w", name, err)
		}
	}
	return found, names.Err()
}

// checkEvery is how often the inbox compares its counts with the server's.
const checkEvery = 15 * time.Second

// counted is what a check has seen, for the next one to hold against the other side.
type counted struct {
	epoch     *epoch
	delivered uint64 // by the server
	acked     uint64 // by the inbox
}

// check makes the consumer anew if a delivery or an acknowledgement of before the last check has not arrived: one that
// was lost with a leader would show in nothing else.
func (in *Inbox) check(ctx context.Context, last counted) counted {
	in.mu.Lock()
	ep := in.epoch
	in.mu.Unlock()
	if ep == nil {
		return counted{}
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	c, err := in.stream.Consumer(ctx, ep.name)
	if err != nil {
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			in.breakEpoch(ep, err)
		}
		return counted{}
	}
	info := c.CachedInfo()
	in.mu.Lock()
	defer in.mu.Unlock()
	settled := info.Delivered.Consumer - uint64(info.NumAckPending)
	if last.epoch == ep && (ep.received < last.delivered || settled < last.acked) {
		in.breakLocked(ep, errMissing)
	}
	return counted{ep, info.Delivered.Consumer, ep.acked}
}
