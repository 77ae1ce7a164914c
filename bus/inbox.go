package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/components/metrics"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/loopbus/loopbus/schemas"
)

// A Handler takes what arrives in the inbox.
//
// Deliver is called with the commands of a session in the order of the queue, one at a time until it calls entered,
// which says that the command has its place in order and the next may come; returning says so too. It is called for
// many sessions at once. While it runs the command stays in the queue, so Deliver should return only once the session is
// at rest, or for a command that does not wake it, once it is in the log. Nil acknowledges the command; after an error it is
// delivered again, at once the first time and then after growing delays. Delivery is at least once: a command may come
// again although it was taken. Errors are logged, but for those that wrap [schemas.ErrConflict] or [context.Canceled]: they
// mean that another runner, or a later one, is to have the command.
//
// Reject is told of a message that is no command of a session whose id is legal, or that was given up after too many
// deliveries. An error has it delivered again.
//
// The context ends when the inbox has waited [InboxOptions.StopTimeout] for a command after it was told to stop; its cause is
// [ErrClosed].
type Handler interface {
	Deliver(ctx context.Context, cmd schemas.Command, entered func()) error
	Reject(ctx context.Context, session string, r schemas.CommandRejected) error
}

// A Keeper is what a [Handler] may be besides. Keeps reports whether a session that it is at work on is known to be still its
// own: no other runner has extended it. It is asked, under a short time limit, where the servers have not heard of the session's
// message for so long that another runner could have had it; without an answer what is being done is given up and begun anew.
type Keeper interface {
	Keeps(ctx context.Context, session string) bool
}

// errGivenBack gives a command back that was not begun when its partition was left.
var errGivenBack = errors.New("bus: another runner reads the partition now")

// Inbox reads a runner's share of the sessions' commands: the partitions that rendezvous hashing over the live runners
// gives it. It leaves and takes partitions as runners come and go, and it tells the server of every command it has in
// hand, how ever long that takes, so that none is delivered elsewhere while its runner lives.
//
// It runs on Watermill's Router with the middlewares Recoverer, CorrelationID and, where there is a registerer,
// metrics; Timeout applies to rejections only, because a delivery may rightly take as long as a run does.
//
// It is bounded: once [InboxOptions.MaxInHand] messages are unsettled it stops pulling, and they wait on the server.
type Inbox struct {
	conn  *Conn
	opts  InboxOptions
	sub   *inboxSubscriber
	live  *members
	ready chan struct{}
	once  sync.Once
}

// NewInbox returns an inbox on c, which stays the caller's and has to outlive it. The streams have to be there (see
// [Setup]). It does nothing before [Inbox.Run].
func NewInbox(c *Conn, o InboxOptions) (*Inbox, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	live := &members{conn: c, ttl: o.MemberTTL, log: o.Logger, entry: runnerEntry{ID: o.RunnerID, Started: time.Now().UTC()}}
	return &Inbox{conn: c, opts: o, sub: newInboxSubscriber(c, o), live: live, ready: make(chan struct{})}, nil
}

// Ready is closed once the inbox reads its share for the first time.
func (in *Inbox) Ready() <-chan struct{} { return in.ready }

// Partitions returns the partitions it reads at this moment, in order.
func (in *Inbox) Partitions() []int { return in.sub.reading() }

// Health returns nil while the runner counts as live. It does not once its entry could not be renewed for MemberTTL: it
// cannot reach the servers, most of them are down, or it was suspended. The others, if they can, have divided its share by
// then. Before [Inbox.Ready] it says nothing of use.
func (in *Inbox) Health() error { return in.live.health() }

// InHand returns how many messages are unsettled at this moment.
func (in *Inbox) InHand() int { return in.sub.hand.count() }

// Run serves until ctx ends and then drains: it takes nothing new, gives back what no handler has begun, leaves the live
// runners and unpins its partitions, so that another runner goes on at once, and waits up to StopTimeout for the handlers
// at work; their commands are delivered elsewhere when they fail. A handler that should hand its session over has to be
// told so by the caller, by the same signal. Nil means that everything in hand was settled. Run may be called once.
func (in *Inbox) Run(ctx context.Context, h Handler) error {
	err := errors.New("bus: inbox was run before")
	in.once.Do(func() { err = in.run(ctx, h) })
	return err
}

func (in *Inbox) run(ctx context.Context, h Handler) error {
	if err := in.sub.prepare(ctx); err != nil {
		return err
	}
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	in.sub.keeper, _ = h.(Keeper)
	in.sub.stop = ctx.Done()
	router, err := in.router(h)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		// Not under work: a router whose context has ended does not close its subscriber.
		if err := router.Run(context.WithoutCancel(ctx)); err != nil {
			in.opts.Logger.Error("inbox router", "err", err)
		}
	})
	running.Go(func() { in.sub.hand.beat(work, in.opts.AckWait, in.conn.nc.FlushWithContext) })
	<-router.Running()
	serveErr := in.serve(ctx, work)
	return errors.Join(serveErr, in.drain(ctx, router, kill))
}

// serve follows the live runners and reads the partitions that fall to this one.
func (in *Inbox) serve(ctx, work context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(in.sub.lost, func() { cancel(context.Cause(in.sub.lost)) })()
	err := in.live.run(ctx, func(ids []string) {
		in.sub.meet(len(ids) - 1)
		in.sub.read(work, share(in.sub.partitions, ids, in.opts.RunnerID))
		in.becomeReady()
	})
	if lost := context.Cause(in.sub.lost); lost != nil {
		return lost
	}
	return err
}

func (in *Inbox) becomeReady() {
	select {
	case <-in.ready:
	default:
		close(in.ready)
	}
}

// drain gives everything to the others. Leaving and unpinning go in parallel: what counts is when another may read.
func (in *Inbox) drain(ctx context.Context, router *message.Router, kill context.CancelCauseFunc) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), in.opts.StopTimeout+handoverTimeout)
	defer cancel()
	var leaving sync.WaitGroup
	if in.sub.lost.Err() == nil {
		leaving.Go(func() {
			if err := in.live.leave(ctx); err != nil {
				in.opts.Logger.Warn("leaving the live runners", "err", err)
			}
		})
	}
	in.sub.stopReading()
	left := in.finish(kill)
	leaving.Wait()
	if err := router.Close(); err != nil {
		return fmt.Errorf("bus: inbox of runner %s: %d commands still at work: %w", in.opts.RunnerID, left, err)
	}
	return nil
}

// finish waits for the handlers, cuts them off after StopTimeout, and returns how many ignored even that.
func (in *Inbox) finish(kill context.CancelCauseFunc) (left int) {
	empty := in.sub.hand.emptied()
	timeout := time.NewTimer(in.opts.StopTimeout)
	defer timeout.Stop()
	select {
	case <-empty:
	case <-timeout.C:
		in.opts.Logger.Warn("commands did not end in time, cutting them off", "count", in.InHand())
	}
	kill(ErrClosed)
	timeout.Reset(cutOffTimeout)
	select {
	case <-empty:
	case <-timeout.C:
	}
	return in.InHand()
}

func (in *Inbox) router(h Handler) (*message.Router, error) {
	// What Watermill tells of its own parts is of no use to an operator.
	logger := watermill.NewSlogLoggerWithLevelMapping(in.opts.Logger, map[slog.Level]slog.Level{slog.LevelInfo: slog.LevelDebug})
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: cutOffTimeout}, logger)
	if err != nil {
		return nil, fmt.Errorf("bus: inbox router: %w", err)
	}
	if in.opts.Registerer != nil {
		metrics.NewPrometheusMetricsBuilder(in.opts.Registerer, "loopbus", "inbox").AddPrometheusRouterMetrics(router)
	}
	router.AddMiddleware(slices.Concat(in.opts.Middleware, []message.HandlerMiddleware{middleware.CorrelationID})...)
	handler := newInboxHandler(in.conn, in.opts, h)
	router.AddConsumerHandler("inbox", in.conn.subjects.Command("*", "*"), in.sub, handler.handle).
		AddMiddleware(handler.passOn, handler.giveUp, middleware.Recoverer)
	return router, nil
}
