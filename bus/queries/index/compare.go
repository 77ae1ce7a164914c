package index

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	rejoinWait = 500 * time.Millisecond // pause before a retry
	repairs    = 4                      // concurrent repairs, because the runner has other work
	headsBatch = 4096                   // messages read at once, without their payloads
	headsBytes = 4 << 20                // of them
)

// compareLoop compares the index with the logs until ctx ends: at once, and then at intervals with jitter. It returns
// an error if the bucket was replaced. created is the creation time of the bucket.
func (ix *Index) compareLoop(ctx context.Context, created time.Time) error {
	for {
		err := ix.compare(ctx)
		if err == nil && time.Since(ix.audited) >= ix.o.Audit {
			if err = ix.audit(ctx); err == nil {
				ix.audited = time.Now()
			}
		}
		if err != nil && ctx.Err() == nil {
			ix.o.Logger.Warn("comparing the index of sessions with their logs failed", "err", err)
		}
		if !natsio.Wait(ctx, ix.o.Check/2+rand.N(ix.o.Check)) {
			return nil
		}
		if ix.replaced(ctx, created) {
			return errors.New("index: the bucket was replaced")
		}
	}
}

// replaced reports whether the bucket was deleted, or created at a different time. If the server does not answer, it
// returns false.
func (ix *Index) replaced(ctx context.Context, created time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	s, err := ix.js.Stream(ctx, bucketStream)
	if err != nil {
		return errors.Is(err, jetstream.ErrStreamNotFound)
	}
	return !s.CachedInfo().Created.Equal(created)
}

// compare repairs every entry that lacks messages stored since the checkpoint, and advances the checkpoint.
func (ix *Index) compare(ctx context.Context) error {
	ix.uncover(ctx)
	ahead := ix.newest() // before the stream is asked, which may grow
	stream, err := ix.js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return fmt.Errorf("index: stream %s: %w", schemas.StreamEvents, err)
	}
	from, head := ix.checkpointNow(), stream.CachedInfo().State.LastSeq
	replaced := from > head || ahead > head // the stream was lost, or restored from an older backup
	if replaced {
		from = 0
	}
	if from == head {
		ix.completed()
		return nil
	}
	heads, err := ix.heads(ctx, from, head)
	if err != nil {
		return err
	}
	if replaced {
		ix.addLost(heads)
	}
	if len(ix.behind(heads, replaced)) > 0 && from > 0 {
		if !natsio.Wait(ctx, ix.o.Grace) { // the runner that drives the session may be about to write it
			return context.Cause(ctx)
		}
	}
	if err := ix.repairAll(ctx, heads, replaced); err != nil {
		return err
	}
	if ix.checkpointNow() < head || from == 0 {
		if err := ix.writeCheckpoint(ctx, head); err != nil {
			return err
		}
	}
	ix.completed()
	return nil
}

// heads returns the stream sequence of the newest message of each session with messages in a range of the stream. Its
// consumer is one of our own: the ordered one of nats.go may stand still at first, and is left on the server.
func (ix *Index) heads(ctx context.Context, from, upTo uint64) (map[string]uint64, error) {
	config := jetstream.ConsumerConfig{
		FilterSubject: ix.subjects.Event("*"), HeadersOnly: true, InactiveThreshold: time.Minute,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from + 1,
	}
	if from == 0 {
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	consumer, err := ix.js.CreateConsumer(ctx, schemas.StreamEvents, config)
	if err != nil {
		return nil, fmt.Errorf("index: read %s from %d: %w", schemas.StreamEvents, from+1, err)
	}
	info := consumer.CachedInfo()
	defer func() { // without a reply subject, so that no goroutine waits for the answer
		_ = ix.js.Conn().Publish(natsio.APIPrefix(ix.js)+"CONSUMER.DELETE."+schemas.StreamEvents+"."+info.Name, nil)
	}()
	heads := make(map[string]uint64)
	for delivered, left := uint64(0), info.NumPending; left > 0; {
		if left, err = ix.someHeads(ctx, info, int(min(left, headsBatch)), &delivered, upTo, heads); err != nil {
			return nil, fmt.Errorf("index: read %s from %d: %w", schemas.StreamEvents, from+1, err)
		}
	}
	return heads, nil
}

// someHeads reads n messages into heads, and returns how many are left up to a sequence. delivered counts the
// consumer's deliveries.
func (ix *Index) someHeads(ctx context.Context, consumer *jetstream.ConsumerInfo, n int, delivered *uint64, upTo uint64,
	heads map[string]uint64) (left uint64, err error) {
	release, err := natsio.Reserve(ctx, ix.js.Conn(), headsBytes)
	if err != nil {
		return 0, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	before := *delivered
	for m, failed := range natsio.Fetch(ctx, ix.js, consumer, n, headsBytes) {
		if err = failed; err != nil {
			break
		}
		at, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		if *delivered++; at.Sequence.Consumer != *delivered {
			return 0, fmt.Errorf("delivery %d is missing", *delivered)
		}
		if session, err := ix.subjects.ParseEvent(m.Subject); err == nil && at.Sequence.Stream <= upTo {
			heads[session] = at.Sequence.Stream
		}
		if left = at.NumPending; at.Sequence.Stream >= upTo {
			left = 0
		}
	}
	if *delivered == before {
		return 0, errors.Join(context.DeadlineExceeded, err)
	}
	return left, err
}

// newest returns the largest stream sequence that an entry includes.
func (ix *Index) newest() (stream uint64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, n := range ix.list.nodes {
		if n.Summary.Status != schemas.SessionDamaged { // whose sequence is not that of its log
			stream = max(stream, n.Stream)
		}
	}
	return stream
}

// addLost adds the sessions to heads that have an entry and no log, with the sequence 0.
func (ix *Index) addLost(heads map[string]uint64) {
	for _, e := range ix.View().Entries {
		if _, ok := heads[e.Summary.Session]; !ok {
			heads[e.Summary.Session] = 0
		}
	}
}

// behind returns the sessions whose entries lack messages up to their heads. In a stream that was replaced, an entry
// may also be ahead of its log.
func (ix *Index) behind(heads map[string]uint64, replaced bool) []string {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var sessions []string
	for session, stream := range heads {
		if e := ix.list.get(session); e == nil || e.Stream < stream || replaced && e.Stream > stream {
			sessions = append(sessions, session)
		}
	}
	return sessions
}

// repairAll repairs the sessions that are behind their heads, in random order, so that several runners doing this at
// once share the work. It checks each session again before repairing it. One that fails does not keep it from the
// others; it returns the first error.
func (ix *Index) repairAll(ctx context.Context, heads map[string]uint64, replaced bool) error {
	behind := ix.behind(heads, replaced)
	rand.Shuffle(len(behind), func(i, j int) { behind[i], behind[j] = behind[j], behind[i] })
	if len(behind) > 0 {
		ix.o.Logger.Info("reading logs for the index of sessions", "sessions", len(behind))
	}
	var g errgroup.Group
	g.SetLimit(repairs)
	for _, session := range behind {
		g.Go(func() error {
			if len(ix.behind(map[string]uint64{session: heads[session]}, replaced)) == 0 || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			_, err := ix.repair(ctx, session, heads[session])
			return err
		})
	}
	return g.Wait()
}

func (ix *Index) checkpointNow() uint64 {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.checkpoint
}

// completed records that the index includes everything that the logs had when it was compared.
func (ix *Index) completed() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.complete = true
}
