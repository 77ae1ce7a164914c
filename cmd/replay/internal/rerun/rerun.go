package rerun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Choices are the differences from the recorded run; nil fields keep the recorded value. Session is the id of the new
// session.
type Choices struct {
	Session       string                 `json:"session"`
	Model         *schemas.ModelRef      `json:"model,omitempty"`
	ThinkingLevel *schemas.ThinkingLevel `json:"thinkingLevel,omitempty"`
	SystemPrompt  *string                `json:"systemPrompt,omitempty"`
	// Live executes tools; otherwise their calls are answered from the log.
	Live bool `json:"live,omitempty"`
	// Stop aborts the run at the first call without a recorded answer; otherwise the model gets an error result.
	Stop bool `json:"stop,omitempty"`
}

// Rerun carries out a rerun. It can be used once.
type Rerun struct {
	Plan    *Plan
	Choices Choices
	// Client and JetStream use the same connection, which the caller owns.
	Client    *client.Client
	JetStream jetstream.JetStream
	Logger    *slog.Logger
	// Past is the log of the new session: empty, or the events of an earlier attempt at the same rerun.
	Past []schemas.Event
	// Show, if not nil, is called with each item of the run. Its error ends the rerun.
	Show func(client.Item) error
}

// ErrTaken reports that the new session exists already and was not created by the same rerun.
var ErrTaken = errors.New("the session is there already, and is not a rerun of this event with these settings")

// Time limits of a rerun.
const (
	announceWithin = 15 * time.Second
	abortWithin    = 15 * time.Second
)

// Do creates the branch, sets its configuration, and follows the run to its end. If ctx ends first, Do aborts the run,
// because its tool calls would get no answers.
func (r *Rerun) Do(ctx context.Context) (client.Result, error) {
	if err := r.checkPast(); err != nil {
		return client.Result{}, err
	}
	answering := new(answering)
	if !r.Choices.Live {
		r.given()
		var err error
		if answering, err = r.answer(ctx); err != nil {
			return client.Result{}, err
		}
		defer answering.stop()
	}
	if err := r.prepare(ctx); err != nil {
		return client.Result{}, err
	}
	if err := r.begin(ctx); err != nil {
		return client.Result{}, err
	}
	return r.follow(ctx, answering)
}

// Channel returns the workspace that the recorded tools are announced for.
func (r *Rerun) Channel() string {
	sum := sha256.Sum256([]byte(r.Choices.Session))
	return "rerun-" + hex.EncodeToString(sum[:12])
}

// id returns the id of a command, which only this rerun uses.
func (r *Rerun) id(what string) string {
	whole, err := schemas.Marshal(struct {
		Session string  `json:"session"`
		Seq     uint64  `json:"seq"`
		Choices Choices `json:"choices"`
	}{r.Plan.Session, r.Plan.Seq, r.Choices})
	if err != nil { // of texts and numbers
		panic(err)
	}
	sum := sha256.Sum256(whole)
	return "rerun-" + hex.EncodeToString(sum[:8]) + "-" + what
}

// checkPast returns an error if another client or another rerun has created the session.
func (r *Rerun) checkPast() error {
	if len(r.Past) == 0 || r.Past[0].CausationID == r.id("branch") {
		return nil
	}
	return fmt.Errorf("re-run session %s as session %s: %w: name another with --id", r.Plan.Session, r.Choices.Session,
		ErrTaken)
}

// given takes the answers that the session has received already.
func (r *Rerun) given() {
	for _, e := range r.Past {
		if d, ok := e.Data.(*schemas.ToolExecutionStart); ok {
			def := definition(r.Plan.Config.Tools, d.ToolName)
			r.Plan.Answers.Take(schemas.NewCallKey(e.Seq), d.ToolName, prepared(def, d.Args))
		}
	}
}

func definition(tools []schemas.ToolDefinition, name string) *schemas.ToolDefinition {
	for i := range tools {
		if tools[i].Name == name {
			return &tools[i]
		}
	}
	return nil
}

// prepare creates the branch and sets its configuration.
func (r *Rerun) prepare(ctx context.Context) error {
	s := r.Client.Session(r.Choices.Session)
	if err := s.Branch(ctx, r.Plan.Session, r.Plan.Seq, client.WithID(r.id("branch"))); err != nil {
		return fmt.Errorf("re-run session %s: %w", r.Plan.Session, err)
	}
	for _, setting := range r.settings() {
		if err := s.Set(ctx, setting, client.WithID(r.id(string(setting.CommandKind())))); err != nil {
			return fmt.Errorf("re-run session %s: session %s is made, and has not begun: %w", r.Plan.Session,
				r.Choices.Session, err)
		}
	}
	return nil
}

// settings returns the chosen settings, and the recorded ones for the rest: the defaults of the runner or a profile may
// have changed since.
func (r *Rerun) settings() (all []schemas.CommandData) {
	c, recorded := r.Choices, r.Plan.Config
	switch {
	case c.Model != nil:
		all = append(all, &schemas.SetModel{Model: *c.Model})
	case recorded.Model.ID != "":
		all = append(all, &schemas.SetModel{Model: recorded.Model})
	}
	switch {
	case c.ThinkingLevel != nil:
		all = append(all, &schemas.SetThinkingLevel{ThinkingLevel: *c.ThinkingLevel})
	case recorded.ThinkingLevel != "":
		all = append(all, &schemas.SetThinkingLevel{ThinkingLevel: recorded.ThinkingLevel})
	}
	if c.SystemPrompt != nil {
		all = append(all, &schemas.SetSystemPrompt{SystemPrompt: *c.SystemPrompt})
	}
	return all
}

// begin starts the run. It ignores an interruption, because the command may be stored already; [Rerun.follow] aborts
// the run then.
func (r *Rerun) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	options := []client.Option{client.WithID(r.id("go"))}
	if !r.Choices.Live {
		options = append(options, client.WithChannelOnly(r.Channel()))
	}
	var command schemas.CommandData = &schemas.Continue{}
	if r.Plan.Prompt != nil {
		command = &schemas.Prompt{Input: *r.Plan.Prompt}
	}
	_, err := r.Client.Session(r.Choices.Session).Send(ctx, command, options...)
	return err
}

// follow shows the items of the run as they arrive, and returns its outcome.
func (r *Rerun) follow(ctx context.Context, answering *answering) (client.Result, error) {
	run := r.Client.Session(r.Choices.Session).Run(r.id("go"))
	var unserved error
	for item, err := range run.Items(ctx) {
		if err != nil {
			break // Wait returns it
		}
		if err := answering.check(item.Event); err != nil && unserved == nil {
			unserved = err
			if err := r.abort(ctx, err.Error()); err != nil {
				return client.Result{}, err
			}
		}
		if r.Show == nil {
			continue
		}
		if err := r.Show(item); err != nil {
			return client.Result{}, errors.Join(err, r.abort(ctx, "nobody follows it"))
		}
	}
	if ctx.Err() == nil {
		result, err := run.Wait(ctx)
		return result, errors.Join(err, unserved)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	err := r.abort(ending, "nobody answers its tools any more: "+context.Cause(ctx).Error())
	if err == nil {
		_, err = run.Wait(ending)
	}
	if err != nil {
		return client.Result{}, fmt.Errorf("%w; abort the run of session %s: %w", context.Cause(ctx), r.Choices.Session, err)
	}
	return client.Result{}, fmt.Errorf("%w; the run of session %s is aborted", context.Cause(ctx), r.Choices.Session)
}

// abort aborts the run. It is no error if the run has ended already.
func (r *Rerun) abort(ctx context.Context, reason string) error {
	err := r.Client.Session(r.Choices.Session).Abort(ctx, reason)
	var rejected *client.RejectedError
	if errors.As(err, &rejected) && rejected.Code == schemas.RejectNoRun {
		return nil
	}
	return err
}
