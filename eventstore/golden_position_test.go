package eventstore_test

import (
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// playPositions has commands that come back when they are forgotten, one that was skipped, and another inbox.
func playPositions(r *goldenRig) {
	deliver := func(inbox string, seq uint64, data schemas.CommandData) {
		r.at = schemas.InboxPosition{Inbox: inbox, StreamSeq: seq}
		r.deliver(fmt.Sprint(inbox, "-", seq), data)
	}
	deliver("old", 1, &schemas.Abort{})
	deliver("old", 2, &schemas.Prompt{Input: schemas.Input{Text: "hello"}})
	for n := range uint64(loop.MaxKnown) {
		deliver("old", 4+n, &schemas.Name{Name: fmt.Sprint(n)})
	}
	deliver("old", 2, &schemas.Prompt{Input: schemas.Input{Text: "hello"}})
	deliver("old", 3, &schemas.Steer{Input: schemas.Input{Text: "late"}})
	deliver("new", 1, &schemas.Prompt{Input: schemas.Input{Text: "hello again"}})
	deliver("new", 2, &schemas.Label{TargetID: "nothing", Label: "x"})
}
