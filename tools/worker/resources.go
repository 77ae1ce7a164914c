package worker

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// resources announces what the directory of the tools has for prompts. It is of one goroutine.
type resources struct {
	w       *Worker
	last    schemas.Resources
	failing bool
}

func (w *Worker) newResources() *resources { return &resources{w: w} }

// announce looks at the directory and announces what it has. Tools are served all the same where that fails: runs then
// go without.
func (r *resources) announce(ctx context.Context) {
	if r.w.opts.Resources == nil {
		return
	}
	err := r.publish(ctx)
	if err != nil && !r.failing && ctx.Err() == nil { // once, not each time
		r.w.opts.Logger.Warn("resources for prompts not announced", "worker", r.w.opts.ID, "err", err)
	}
	r.failing = err != nil
}

func (r *resources) publish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	found, err := r.w.opts.Resources(ctx)
	if err != nil {
		return err
	}
	found.Workspace, found.Worker, found.Since = r.w.opts.Workspace, r.w.opts.ID, r.last.Since
	if !reflect.DeepEqual(found, r.last) {
		found.Since = time.Now().UTC().Format(time.RFC3339)
		if len(found.Omitted) > 0 {
			r.w.opts.Logger.Warn("resources for prompts left out", "worker", r.w.opts.ID, "omitted", found.Omitted)
		}
	}
	value, err := schemas.Marshal(found)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: r.w.resourcesSubject(), Data: value}
	if _, err := r.w.opts.JS.PublishMsg(ctx, msg, jetstream.WithMsgTTL(r.w.opts.AnnounceTTL)); err != nil {
		return fmt.Errorf("publish to %s: %w", msg.Subject, err)
	}
	r.last = found
	return nil
}

func (w *Worker) resourcesSubject() string {
	return natsio.KeySubject(w.opts.JS, schemas.BucketResources, schemas.ResourcesKey(w.opts.Workspace, w.opts.ID))
}
