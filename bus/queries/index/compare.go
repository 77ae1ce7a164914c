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
	rejoinWait = 500 * time.Millisecond // before what failed is retried
	repairs    = 4                      // at once: the rest of the runner has work to do
)

// comparing compares the index with the log until ctx ends: at once, and then every now and then, each runner at
// moments of its own. made is the bucket that it belongs to.
func (ix *Index) comparing(ctx context.Context, made time.Time) error {
	audited := time.Time{}
	for {
		err := ix.compare(ctx)
		if err == nil && time.Since(audited) >= ix.o.Audit {
			if err = ix.audit(ctx); err == nil {
				audited = time.Now()
			}
		}
		if err != nil && ctx.Err() == nil {
			ix.o.Logger.Warn("the index of sessions was not compared with their logs", "err", err)
		}
		if !natsio.Wait(ctx, ix.o.Check/2+rand.N(ix.o.Check)) {
			return nil
		}
		if ix.another(ctx, made) {
			return errors.New("index: the bucket is another one")
		}
	}
}

// another reports whether the bucket is not the one that was made at a moment. Where nobody answers it is not known.
func (ix *Index) another(ctx context.Context, made time.Time) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	s, err := ix.js.Stream(ctx, "KV_"+schemas.BucketSessions)
	if err != nil {
		return errors.Is(err, jetstream.ErrStreamNotFound)
	}
	return !s.CachedInfo().Created.Equal(made)
}

// compare has every entry written that lacks what the log has had since the checkpoint, and moves the checkpoint.
func (ix *Index) compare(ctx context.Context) error {
	ix.uncover(ctx)
	stream, err := ix.js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return fmt.Errorf("index: stream %s: %w", schemas.StreamEvents, err)
	}
	from, head := ix.checkpointNow(), stream.CachedInfo().State.LastSeq
	if from > head { // the log was lost, or is another one
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
	if behind := ix.behind(heads); len(behind) > 0 && from > 0 {
		if !natsio.Wait(ctx, ix.o.Grace) { // its writer is about to write it
			return context.Cause(ctx)
		}
	}
	if err := ix.repairAll(ctx, heads); err != nil {
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

// heads returns the stream sequence of the newest message of each session that has one from behind a sequence up to
// another.
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

// behind returns the sessions whose entries lack what they had at their heads.
func (ix *Index) behind(heads map[string]uint64) []string {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	var sessions []string
	for session, stream := range heads {
		if e := ix.list.get(session); e == nil || e.Stream < stream {
			sessions = append(sessions, session)
		}
	}
	return sessions
}

// repairAll repairs the sessions that are behind their heads, in no order, so that several runners that do this at once
// share the work. Each looks again before it begins.
func (ix *Index) repairAll(ctx context.Context, heads map[string]uint64) error {
	behind := ix.behind(heads)
	rand.Shuffle(len(behind), func(i, j int) { behind[i], behind[j] = behind[j], behind[i] })
	if len(behind) > 0 {
		ix.o.Logger.Info("sessions are read for the index", "sessions", len(behind))
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(repairs)
	for _, session := range behind {
		g.Go(func() error {
			if len(ix.behind(map[string]uint64{session: heads[session]})) == 0 || ctx.Err() != nil {
				return context.Cause(ctx)
			}
			_, err := ix.repair(ctx, session, heads[session])
			return err
		})
	}
	return g.Wait()
}

// audit deletes the entries of sessions whose logs are deleted.
func (ix *Index) audit(ctx context.Context) error {
	entries := ix.View().Entries
	if len(entries) == 0 {
		return nil
	}
	stream, err := ix.js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return fmt.Errorf("index: sessions with a log: %w", err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(ix.subjects.Event("*")))
	if err != nil {
		return fmt.Errorf("index: sessions with a log: %w", err)
	}
	for _, e := range entries {
		session := e.Summary.Session
		if _, has := info.State.Subjects[ix.subjects.Event(session)]; has {
			continue
		}
		if _, err := ix.repair(ctx, session, 0); err != nil {
			return err
		}
	}
	return nil
}

func (ix *Index) checkpointNow() uint64 {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.checkpoint
}

// completed says that the index has had all that the log had when it was compared.
func (ix *Index) completed() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.complete = true
}
