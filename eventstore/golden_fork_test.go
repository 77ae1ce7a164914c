package eventstore_test

import (
	"context"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// goldenKeeper is against copies of commands that are called "no".
type goldenKeeper struct{}

func (goldenKeeper) Ask(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer,
	err error) {
	a.By, a.Cancel = "ann", req.CommandID == "no"
	return a, nil
}

func forking(o *host.Options) {
	o.Services = goldenKeeper{}
	o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookSessionBeforeFork, Service: "watch"}}
}

func playFork(r *goldenRig) {
	session := r.session
	r.session = "origin"
	r.deliver("p0", &schemas.Prompt{Input: schemas.Input{Text: "first"}})
	r.deliver("l0", &schemas.Label{TargetID: r.state().Tree.Leaf, Label: "here"})
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "second"}})
	second := r.state().Messages[2].ID
	r.session = session
	from := schemas.Branch{Session: "origin", EntryID: second, Position: schemas.BranchBefore}
	r.deliver("no", &from)
	r.deliver("f1", &from)
	r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "second, said differently"}})
}
