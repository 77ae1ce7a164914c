package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

// errStopping is the cause of the cancellation of calls that still run when StopTimeout has passed.
var errStopping = errors.New("the worker is stopping")

// A Worker serves tools. [New] creates one. It can be run once.
type Worker struct {
	opts          Options
	announcements []announcement
	cancels       *cancels
	started       *startedCalls
	metrics       *metrics
	oversized     sync.Once // logs the first update that is too large

	// work is cancelled when running calls have to stop, answers when the worker stops trying to store their results.
	work       context.Context
	killWork   context.CancelCauseFunc
	answers    context.Context
	endAnswers context.CancelFunc
}

// New checks the options and returns all mistakes in one error. It starts nothing.
func New(o Options) (*Worker, error) {
	err := o.check()
	w := &Worker{opts: o, cancels: newCancels(), started: newStartedCalls()}
	if err == nil {
		w.announcements, err = w.makeAnnouncements()
	}
	if err != nil {
		return nil, fmt.Errorf("worker %q: %w", o.ID, err)
	}
	w.metrics = newMetrics(o.Registerer)
	w.metrics.initialize(o.Tools)
	w.work, w.killWork = context.WithCancelCause(context.Background())
	w.answers, w.endAnswers = context.WithCancel(context.Background())
	return w, nil
}

// Run serves the tools until ctx ends, and then drains. It returns nil after a clean drain; an error tells why the
// worker could not start, continue or drain.
func (w *Worker) Run(ctx context.Context) error {
	defer w.endAnswers()
	defer w.killWork(nil)
	unsubscribe, err := w.cancels.listen(w.opts.NC, w.opts.Subjects)
	if err != nil {
		return fmt.Errorf("worker %s: listen for cancellations: %w", w.opts.ID, err)
	}
	defer unsubscribe()
	router, err := w.router(ctx)
	if ctx.Err() != nil { // stopped before it started
		return nil
	}
	if err != nil {
		return fmt.Errorf("worker %s: %w", w.opts.ID, err)
	}
	run := &routerRun{Router: router, done: make(chan struct{})}
	go run.run(context.WithoutCancel(ctx))
	select {
	case <-run.done:
		return fmt.Errorf("worker %s: start: %w", w.opts.ID, run.err)
	case <-router.Running():
	}
	err = w.serve(ctx, run)
	return errors.Join(err, w.drain(run))
}

// routerRun is a running router. err may be read once done is closed.
type routerRun struct {
	*message.Router
	done chan struct{}
	err  error
}

func (r *routerRun) run(ctx context.Context) {
	defer close(r.done)
	r.err = r.Run(ctx)
}

// serve announces the tools until ctx ends or the router stops, and then withdraws the announcements.
func (w *Worker) serve(ctx context.Context, run *routerRun) error {
	announce, stop := context.WithCancel(ctx)
	var announcing sync.WaitGroup
	failed := make(chan error, 1)
	announcing.Go(func() {
		if err := w.announce(announce); err != nil {
			failed <- err
		}
	})
	defer w.withdraw()
	defer announcing.Wait()
	defer stop()
	w.opts.Logger.Info("worker started", "worker", w.opts.ID, "tools", len(w.opts.Tools))
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case <-run.done:
		return errors.New("worker " + w.opts.ID + ": its subscriptions ended")
	}
}

// drain closes the router, which waits for the running calls. It cancels the calls that run longer than they may.
func (w *Worker) drain(run *routerRun) error {
	w.opts.Logger.Info("worker stopping", "worker", w.opts.ID)
	closed := make(chan struct{})
	var limiting sync.WaitGroup
	limiting.Go(func() { w.limit(closed) })
	err := run.Close()
	<-run.done
	close(closed)
	limiting.Wait()
	if err = errors.Join(err, run.err); err != nil {
		return fmt.Errorf("worker %s: stop: %w", w.opts.ID, err)
	}
	return nil
}

// limit cancels the calls that run longer than StopTimeout, and ends answers a moment later, unless the worker is
// closed before.
func (w *Worker) limit(closed <-chan struct{}) {
	if w.opts.Life != nil {
		select {
		case <-w.opts.Life.Done():
		case <-closed:
			return
		}
	}
	for _, step := range []struct {
		after time.Duration
		do    func()
	}{{w.opts.StopTimeout, func() { w.killWork(errStopping) }}, {answerGrace, w.endAnswers}} {
		select {
		case <-time.After(step.after):
			step.do()
		case <-closed:
			return
		}
	}
}

// closeTimeout returns how long closing waits for calls at most. limit ends them before.
func (w *Worker) closeTimeout() time.Duration {
	if w.opts.Life != nil {
		return maxLife
	}
	return w.opts.StopTimeout + answerGrace
}

// maxLife is longer than any call.
const maxLife = 10 * 365 * 24 * time.Hour

func (w *Worker) router(ctx context.Context) (*message.Router, error) {
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: w.closeTimeout() + answerGrace},
		w.routerLogger())
	if err != nil {
		return nil, err
	}
	publisher := pubsub.NewPublisher(w.opts.JS)
	publisher.Distrust = true // storing an answer twice is harmless: the session uses the first one
	router.AddMiddleware(w.deadLetters(), middleware.CorrelationID, middleware.Recoverer)
	for _, tool := range w.opts.Tools {
		queue := tool.Queue().Name()
		subscriber, err := w.subscriber(ctx, tool)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", tool.Queue(), err)
		}
		handler := router.AddHandler(queue, topic(w.opts.Subjects, queue), subscriber,
			w.opts.Subjects.Command("*", "tool_result"), answerer{w, publisher}, toolHandler{w, tool}.handle)
		if tool.TimeoutMs > 0 {
			handler.AddMiddleware(middleware.Timeout(schemas.Milliseconds(tool.TimeoutMs)))
		}
	}
	return router, nil
}

// routerLogger logs Watermill's info messages at the debug level.
func (w *Worker) routerLogger() watermill.LoggerAdapter {
	return noTraces{watermill.NewSlogLoggerWithLevelMapping(w.opts.Logger,
		map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})}
}

// noTraces drops the trace messages that the router logs for every message, before they are formatted.
type noTraces struct{ watermill.LoggerAdapter }

func (noTraces) Trace(string, watermill.LogFields) {}

func (n noTraces) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return noTraces{n.LoggerAdapter.With(fields)}
}
