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

// resources announces the resources for prompts ([Options.Resources]). It is not safe for concurrent use.
type resources struct {
	w       *Worker
	look    look
	last    schemas.Resources // the last that were announced
	failing bool              // true if the last attempt failed
}

func (w *Worker) newResources() *resources { return &resources{w: w, look: newLook(w.opts.Resources)} }

// announce announces the current resources. If that fails, the tools are served without them: prompts of such runs have
// no resources of this worker.
func (r *resources) announce(ctx context.Context) {
	if r.w.opts.Resources == nil {
		return
	}
	err := r.publish(ctx)
	if err != nil && !r.failing && ctx.Err() == nil { // log only the first of consecutive failures
		r.w.opts.Logger.Warn("resources for prompts not announced", "worker", r.w.opts.ID, "err", err)
	}
	r.failing = err != nil
}

func (r *resources) publish(ctx context.Context) error {
	found, err := r.look.run(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
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
