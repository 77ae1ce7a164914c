package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// announcement is a tool's entry in the bucket agent_tools.
type announcement struct {
	key   string
	value []byte
}

func (w *Worker) makeAnnouncements() ([]announcement, error) {
	since := time.Now().UTC().Format(time.RFC3339)
	list := make([]announcement, 0, len(w.opts.Tools))
	for _, tool := range w.opts.Tools {
		a := schemas.ToolAnnouncement{ToolDefinition: tool.ToolDefinition, Worker: w.opts.ID, Since: since}
		value, err := schemas.Marshal(a)
		if err == nil {
			err = schemas.ValidateToolAnnouncement(value)
		}
		if err == nil {
			err = toolargs.Check(tool.Parameters)
		}
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", tool.Queue(), err)
		}
		list = append(list, announcement{schemas.AnnouncementKey(tool.Queue().Name(), w.opts.ID), value})
	}
	return list, nil
}

// announce writes the announcements and renews them until ctx ends. It returns an error only if the first attempt
// fails; if the bucket is full it retries even then, because others may make room. The resources for prompts are
// announced before the tools: a runner may start a run as soon as it sees the tools. They do not hold up the tools for
// longer than a look takes at most.
func (w *Worker) announce(ctx context.Context) error {
	resources := w.newResources()
	announced := false
	for {
		resources.announce(ctx)
		err := w.announceOnce(ctx)
		next := w.opts.AnnounceTTL / 3
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && !announced:
			announced = true
			if w.opts.Announced != nil {
				w.opts.Announced()
			}
		case err != nil && !announced && !natsio.NoRoom(err):
			return fmt.Errorf("worker %s: announce tools: %w", w.opts.ID, err)
		case err != nil:
			w.opts.Logger.Warn("tools not announced, trying again", "worker", w.opts.ID, "bucket", schemas.BucketTools,
				"err", err)
			next = min(next, announceRetry)
		}
		if !natsio.Wait(ctx, next) {
			return nil
		}
	}
}

// announceRetry is the delay before a failed announcement is retried.
const announceRetry = time.Second

// announceOnce publishes to the subjects of the bucket, because Put of the key-value API cannot set a time to live.
func (w *Worker) announceOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	for _, a := range w.announcements {
		msg := &nats.Msg{Subject: natsio.KeySubject(w.opts.JS, schemas.BucketTools, a.key), Data: a.value}
		if _, err := w.opts.JS.PublishMsg(ctx, msg, jetstream.WithMsgTTL(w.opts.AnnounceTTL)); err != nil {
			return fmt.Errorf("key %s: %w", a.key, err)
		}
	}
	return nil
}

// withdraw deletes the announcements. It publishes the delete markers itself, because opening the bucket would need one
// more permission. An announcement that cannot be deleted expires after AnnounceTTL.
func (w *Worker) withdraw() {
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	var subjects []string
	for _, a := range w.announcements {
		subjects = append(subjects, natsio.KeySubject(w.opts.JS, schemas.BucketTools, a.key))
	}
	if w.opts.Resources != nil {
		subjects = append(subjects, w.resourcesSubject())
	}
	for _, subject := range subjects {
		msg := nats.NewMsg(subject)
		msg.Header = nats.Header{"KV-Operation": {"DEL"}}
		if _, err := w.opts.JS.PublishMsg(ctx, msg, jetstream.WithMsgTTL(w.opts.AnnounceTTL)); err != nil {
			w.opts.Logger.Warn("announcement not withdrawn", "worker", w.opts.ID, "key", subject, "err", err)
		}
	}
}
