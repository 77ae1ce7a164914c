package agui

import (
	"context"
	"errors"
	"slices"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// begin lets all that the request has take effect: first the results of the client's tools, then the answers to
// approvals, then the messages. A request with a mistake has no effect.
func (r *run) begin(ctx context.Context) error {
	state := &r.follower.State
	tail, err := r.in.tail(func(id string) bool { return state.Message(id) != nil })
	if err != nil {
		return err
	}
	news, err := r.unsent(ctx, tail)
	if err != nil {
		return err
	}
	results := r.frontendResults()
	commands, err := r.undecided()
	if err != nil {
		return err
	}
	brings := len(results)+len(r.in.Resume) > 0
	var channel string
	if brings || len(tail) > 0 {
		channel, err = r.b.frontends.serve(ctx, r.follower.Session.ID(), state.Settings.Channel, r.in.Tools)
	}
	if err != nil {
		return err
	}
	r.b.frontends.answer(r.follower.Session.ID(), results, r.hold)
	if err := r.resume(ctx, commands); err != nil {
		return err
	}
	if len(news) > 0 {
		return r.prompt(ctx, news, channel)
	}
	over := r.tracker == nil
	if brings && !over { // the run that it brings something for is a later one
		_, over, _ = r.tracker.Ended()
	}
	if over {
		r.work()
	}
	return nil
}

// unsent returns the messages of the tail that the session has not got: those after the last one that it has not
// refused. If there is one, the stream follows the prompt that it was sent with.
func (r *run) unsent(ctx context.Context, tail []userInput) ([]userInput, error) {
	type prompt struct {
		id      string
		tracker *client.Tracker
		until   int // its messages are before this one of the tail
	}
	var sent []prompt
	var trackers []*client.Tracker
	for i, m := range tail {
		ids, _ := r.sentAs(m)
		for _, id := range ids {
			r.own[id] = true
			sent = append(sent, prompt{id, client.NewTracker(id), i + 1})
			trackers = append(trackers, sent[len(sent)-1].tracker)
		}
	}
	if len(sent) == 0 {
		return tail, nil
	}
	// What became of them is in the log, not in the state.
	r.follower.Rewind(trackers...)
	if err := r.follower.CatchUp(ctx, nil); err != nil {
		return nil, err
	}
	for _, p := range slices.Backward(sent) {
		_, _, err := p.tracker.Ended()
		if refused := (*client.RejectedError)(nil); !errors.As(err, &refused) {
			r.command, r.tracker = p.id, p.tracker
			return tail[p.until:], nil
		}
	}
	return tail, nil
}

// sentAs returns the ids of the prompts that were sent with the message as their last one, and the id of the next: all
// but the newest were refused. The ids are the same in all requests that have the message, so that none sends it again.
func (r *run) sentAs(m userInput) (ids []string, next string) {
	for next = m.command; r.follower.State.Known.Has(next); next = bridge.CommandID(next + "\nagain") {
		ids = append(ids, next)
	}
	return ids, next
}

// prompt sends the messages, and follows their run.
func (r *run) prompt(ctx context.Context, news []userInput, channel string) error {
	_, id := r.sentAs(news[len(news)-1])
	options := []client.Option{client.WithID(id)}
	if channel != "" {
		options = append(options, client.WithChannel(channel))
	}
	var in schemas.Input
	for _, m := range news {
		in.Messages = append(in.Messages, m.message)
	}
	r.own[id] = true
	r.track(id)
	_, err := r.follower.Session.Send(ctx, &schemas.Prompt{Input: in}, options...)
	return err
}

// track follows a prompt that has not begun.
func (r *run) track(command string) {
	r.command, r.tracker = command, client.NewTracker(command)
	r.follower.Trackers = []*client.Tracker{r.tracker}
}

// work follows what the session works at, and the prompts that wait.
func (r *run) work() {
	r.command, r.tracker, r.target = "", nil, ""
	state := &r.follower.State
	switch n := len(state.Prompts); {
	case n > 0:
		r.track(state.Prompts[n-1].CommandID)
	case state.Run != nil:
		r.target = state.Run.ID
	}
}
