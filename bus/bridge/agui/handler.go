package agui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Patterns of the handlers.
const (
	Pattern      = "POST /ag-ui"
	AbortPattern = "POST /ag-ui/abort"
)

// maxInput limits a request: clients send all messages of a thread each time.
const maxInput = 32 << 20

// Bridge serves AG-UI. Its methods are safe for concurrent use.
type Bridge struct {
	c         *client.Client
	load      bridge.Loader
	log       *slog.Logger
	frontends *frontends
}

// Options configures [New]. The zero value is usable.
type Options struct {
	// Load reads the state of sessions. Nil folds their logs from the first event.
	Load bridge.Loader
	// Logger logs refused requests at level debug; nil discards.
	Logger *slog.Logger
}

// New returns a bridge. The caller must [Bridge.Close] it before the client.
func New(c *client.Client, o Options) *Bridge {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Bridge{c: c, load: o.Load, log: o.Logger, frontends: newFrontends(c, o.Logger)}
}

// Close withdraws the tools of clients, and answers their waiting calls with an error.
func (b *Bridge) Close() { b.frontends.close() }

// Abort is the handler that ends the run of a thread, and withdraws the prompts that wait for it or have not begun:
// {"threadId": …}. AG-UI itself has no request for it.
func (b *Bridge) Abort(w http.ResponseWriter, r *http.Request) {
	in, err := read(w, r)
	if err == nil {
		err = b.c.Session(bridge.SessionID(in.ThreadID)).Do(r.Context(),
			&schemas.Abort{Reason: "aborted by its AG-UI client", ClearQueue: true})
	}
	var rejected *client.RejectedError
	if err != nil && (!errors.As(err, &rejected) || rejected.Code != schemas.RejectNoRun) {
		bridge.Refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func read(w http.ResponseWriter, r *http.Request) (*runInput, error) {
	in := new(runInput)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInput)).Decode(in); err != nil {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return nil, err
		}
		return nil, &bridge.RequestError{Reason: "the body is no input of a run: " + err.Error()}
	}
	if in.ThreadID == "" {
		return nil, &bridge.RequestError{Reason: "threadId is missing"}
	}
	return in, nil
}

// ServeHTTP starts a run, or continues one, and streams it.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	in, err := read(w, r)
	if err == nil && in.RunID == "" {
		err = &bridge.RequestError{Reason: "runId is missing"}
	}
	if err != nil {
		bridge.Refuse(w, err)
		return
	}
	run := &run{b: b, in: in, command: bridge.CommandID(in.RunID)}
	if err = run.open(r.Context()); err == nil {
		err = run.begin(r.Context())
	}
	if err != nil {
		b.log.Debug("ag-ui request refused", "session", run.follower.Session.ID(), "err", err)
		bridge.Refuse(w, err)
		return
	}
	run.stream = bridge.NewEventStream(w)
	defer run.stream.End()
	run.serve(r.Context())
}

// open folds the log. If the command is in the log already, it reads all events to find the command's outcome.
func (r *run) open(ctx context.Context) error {
	session := r.b.c.Session(bridge.SessionID(r.in.ThreadID))
	r.tracker = client.NewTracker(r.command)
	r.follower = bridge.Follower{Session: session, Load: r.b.load}
	err := r.follower.Open(ctx)
	if err != nil || !r.follower.State.Known.Has(r.command) {
		r.follower.Trackers = []*client.Tracker{r.tracker}
		return err
	}
	r.follower = bridge.Follower{Session: session, Trackers: []*client.Tracker{r.tracker}}
	return r.follower.CatchUp(ctx, nil)
}

// begin sends the commands of the request.
func (r *run) begin(ctx context.Context) error {
	state := &r.follower.State
	news, err := r.in.news(func(id string) bool { return state.Message(id) != nil })
	if err != nil {
		return err
	}
	answers := r.frontendResults()
	switch {
	case state.Known.Has(r.command): // a repeated request: follow its run
		_, err := r.serveTools(ctx)
		return err
	case len(r.in.Resume) > 0 && len(news) > 0:
		return &bridge.RequestError{Reason: "a resume and new messages in one run: send the messages in the next"}
	case len(r.in.Resume) > 0:
		r.current()
		return r.resume(ctx)
	case len(answers) > 0 && len(news) == 0:
		r.current()
		r.answered = answers
		r.b.frontends.answer(r.follower.Session.ID(), answers) // their worker may have to be started first
		_, err := r.serveTools(ctx)
		return err
	case len(news) > 0:
		return r.prompt(ctx, news)
	}
	r.current()
	return nil
}

// serveTools announces the client's tools, if it has any, and returns their channel.
func (r *run) serveTools(ctx context.Context) (channel string, err error) {
	return r.b.frontends.serve(ctx, r.follower.Session.ID(), r.follower.State.Settings.Channel, r.in.Tools)
}

// current follows the run in progress.
func (r *run) current() {
	if r.follower.State.Run != nil {
		r.target = r.follower.State.Run.ID
	}
	r.joined = true
}

func (r *run) prompt(ctx context.Context, news schemas.Messages) error {
	options := []client.Option{client.WithID(r.command)}
	channel, err := r.serveTools(ctx)
	if err != nil {
		return err
	}
	if channel != "" {
		options = append(options, client.WithChannel(channel))
	}
	_, err = r.follower.Session.Send(ctx, &schemas.Prompt{Input: schemas.Input{Messages: news}}, options...)
	return err
}

// resume answers the calls that wait for approval. The id of each answer contains the run's id, so that a repeated
// resume changes nothing, and its arguments, so that a client can send others after the session has refused some.
func (r *run) resume(ctx context.Context) error {
	state := &r.follower.State
	r.decided = map[schemas.CallKey]bool{}
	var commands []resume
	for _, a := range r.in.Resume {
		asked := a.asked()
		r.decided[asked.Call] = true
		if err := a.check(); err != nil {
			return err
		}
		switch call := state.Call(asked.Call); {
		case !state.Known.Has(r.answerID(a)):
			commands = append(commands, a)
		case call != nil && call.AwaitsApproval(): // if it was answered, the log has the answer with its command
			return &bridge.RequestError{Reason: fmt.Sprintf("resume of %.80q: the session has refused just this answer of "+
				"this run: answer otherwise", a.InterruptID)}
		}
	}
	for _, c := range bridge.Waiting(state) {
		if !r.decided[c.Key] {
			return &bridge.RequestError{Reason: fmt.Sprintf("the resume does not answer %s, which waits, too", c.Key)}
		}
	}
	// Answers that the session may refuse come first, so that a refusal leaves the other calls unanswered.
	slices.SortStableFunc(commands, func(a, b resume) int { return r.riskOfRefusal(b) - r.riskOfRefusal(a) })
	for _, a := range commands {
		if err := r.follower.Session.Do(ctx, a.answer(), client.WithID(r.answerID(a))); err != nil {
			return err
		}
	}
	return nil
}

// riskOfRefusal ranks how likely the session refuses an answer: it refers to another request than the waiting one, or
// has arguments.
func (r *run) riskOfRefusal(a resume) int {
	asked := a.asked()
	call := r.follower.State.Call(asked.Call)
	switch {
	case call != nil && call.Approval != nil && call.Approval.OtherThan(asked.Answer("")):
		return 2
	case a.edited() != nil:
		return 1
	}
	return 0
}

func (r *run) answerID(a resume) string {
	id := r.in.RunID + " answers " + a.InterruptID
	if edited := a.edited(); edited != nil {
		id += " " + string(edited)
	}
	return bridge.CommandID(id)
}
