package agui

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Patterns of the handlers.
const (
	Pattern      = "POST /ag-ui"
	AbortPattern = "POST /ag-ui/abort"
)

// Limits of a request: clients send all messages of a thread each time.
const (
	maxInput  = 32 << 20 // bytes
	maxValues = 1 << 17  // JSON values
)

// Bridge serves AG-UI. Its methods are safe for concurrent use.
type Bridge struct {
	c         *client.Client
	load      bridge.Loader
	log       *slog.Logger
	budget    *bridge.Budget
	views     *bridge.Budget
	frontends *frontends
}

// Options configures [New]. The zero value is usable.
type Options struct {
	// Load reads the state of sessions. Nil folds their logs from the first event.
	Load bridge.Loader
	// Views bounds what streams have in memory of their sessions; share it among bridges. The default is one of
	// [bridge.MaxViewed] bytes.
	Views *bridge.Budget
	// Logger logs refused requests at level debug; nil discards.
	Logger *slog.Logger
}

// New returns a bridge. The caller must [Bridge.Close] it before the client.
func New(c *client.Client, o Options) *Bridge {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Views = cmp.Or(o.Views, bridge.NewViews(bridge.MaxViewed))
	return &Bridge{c: c, load: o.Load, log: o.Logger, budget: bridge.NewBudget(bridge.MaxHeld, maxValues), views: o.Views,
		frontends: newFrontends(c, o.Logger)}
}

// Close withdraws the tools of clients, and answers their waiting calls with an error.
func (b *Bridge) Close() { b.frontends.close() }

// Abort is the handler that ends the run of a thread, and withdraws the prompts that wait for it or have not begun:
// {"threadId": …}. AG-UI itself has no request for it.
func (b *Bridge) Abort(w http.ResponseWriter, r *http.Request) {
	hold := b.budget.Hold("")
	in, err := read(w, r, hold)
	hold.Release() // of the input only the id of the thread is used
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

// read reads and decodes the input of a run. hold has it then.
func read(w http.ResponseWriter, r *http.Request, hold *bridge.Hold) (*runInput, error) {
	body, err := hold.ReadAll(http.MaxBytesReader(w, r.Body, maxInput))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large), errors.Is(err, bridge.ErrFull):
		return nil, err
	case err != nil:
		return nil, &bridge.RequestError{Reason: "the body was not read: " + err.Error()}
	}
	if err := hold.Decoded("the input of a run", body); err != nil {
		return nil, err
	}
	in := new(runInput)
	if err := json.Unmarshal(body, in); err != nil {
		return nil, &bridge.RequestError{Reason: "the body is no input of a run: " + err.Error()}
	}
	if in.ThreadID == "" {
		return nil, &bridge.RequestError{Reason: "threadId is missing"}
	}
	return in, cmp.Or(bridge.CheckID("threadId", in.ThreadID), bridge.CheckID("runId", in.RunID),
		bridge.CheckID("protocolVersion", in.ProtocolVersion))
}

// ServeHTTP starts a run, or continues one, and streams it.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hold := b.budget.Hold("")
	defer hold.Release()
	in, err := read(w, r, hold)
	if err == nil && in.RunID == "" {
		err = &bridge.RequestError{Reason: "runId is missing"}
	}
	if err != nil {
		bridge.Refuse(w, err)
		return
	}
	room := b.views.Hold(bridge.SessionID(in.ThreadID))
	defer room.Release()
	session := b.c.Session(bridge.SessionID(in.ThreadID)).WithRoom(room.Load)
	run := &run{b: b, in: in, hold: hold, own: map[string]bool{},
		follower: bridge.Follower{Session: session, Load: b.load, Room: room}}
	if err = run.follower.Open(r.Context()); err == nil {
		err = run.begin(r.Context())
	}
	if err != nil {
		b.log.Debug("ag-ui request refused", "session", session.ID(), "err", err)
		bridge.Refuse(w, err)
		return
	}
	*in = runInput{ThreadID: in.ThreadID, RunID: in.RunID, ProtocolVersion: in.ProtocolVersion} // a run may take hours
	hold.Release()
	run.stream = bridge.NewEventStream(w)
	defer run.stream.End()
	run.serve(r.Context())
}
