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
	heads, err := ix.heads(ctx, stream, from, head)
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

// heads returns the stream sequence of the newest message of each session with messages in a range of the stream.
func (ix *Index) heads(ctx context.Context, stream jetstream.Stream, from, upTo uint64) (map[string]uint64, error) {
	policy := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{ix.subjects.Event("*")}, HeadersOnly: true, InactiveThreshold: time.Minute,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from + 1,
	}
	if from == 0 {
		policy.DeliverPolicy, policy.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	cons, err := stream.OrderedConsumer(ctx, policy)
	if err != nil {
		return nil, fmt.Errorf("index: read %s from %d: %w", schemas.StreamEvents, from+1, err)
	}
	heads := make(map[string]uint64)
	if info := cons.CachedInfo(); info != nil && info.NumPending == 0 {
		return heads, nil
	}
	msgs, err := cons.Messages(jetstream.PullMaxMessages(4096))
	if err != nil {
		return nil, fmt.Errorf("index: read %s from %d: %w", schemas.StreamEvents, from+1, err)
	}
	defer msgs.Stop()
	for {
		m, err := msgs.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, fmt.Errorf("index: read %s from %d: %w", schemas.StreamEvents, from+1, err)
		}
		at, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("index: read %s: %w", schemas.StreamEvents, err)
		}
		if session, err := ix.subjects.ParseEvent(m.Subject()); err == nil && at.Sequence.Stream <= upTo {
			heads[session] = at.Sequence.Stream
		}
		if at.Sequence.Stream >= upTo || at.NumPending == 0 {
			return heads, nil
		}
	}
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
