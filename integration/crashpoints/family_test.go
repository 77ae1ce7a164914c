package crashpoints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/extension"
)

// What the sub-agents of the trial's session do is no point by itself: what goes between them and the session is. The
// processes that they die with are those of the session.

// withAgent adds the tool agent, as a runner does.
type withAgent struct{ host.Toolbox }

func (t withAgent) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	defs, err := t.Toolbox.Definitions(ctx)
	return append(append([]schemas.ToolDefinition{}, defs...), extension.Agent()), err
}

// agents is a reply that calls the tool agent with each of the arguments.
func agents(letter string, args ...string) scripted.Response {
	var all []schemas.ToolCall
	for i, a := range args {
		all = append(all, schemas.ToolCall{
			ID: fmt.Sprint(schemas.ToolAgent, i+1, letter), Name: schemas.ToolAgent, Arguments: json.RawMessage(a),
		})
	}
	return scripted.Calls("", all...)
}

// isChild reports whether a session is a sub-agent of a trial's.
func isChild(session, parent string) bool { return strings.HasPrefix(session, parent+"-c") }

// child says what every sub-agent says.
func (m model) child(ctx context.Context, req schemas.ModelRequest, yield func(schemas.StreamEvent, error) bool) {
	says, err := scripted.NewScripts(scripted.Options{ChunkSize: 1000}, scripted.Script{
		Responses: []scripted.Response{scripted.Text("from a child")},
	})
	if err != nil {
		panic(err)
	}
	for e, err := range says.Stream(ctx, req) {
		if !yield(e, err) {
			return
		}
	}
}

var childID = regexp.MustCompile(`[A-Za-z0-9_-]*-c[0-9]+-[0-9a-f]{12}`)

// nameless leaves out of a text which session was begun: its id has a hash of the call's nonce.
func nameless(text string) string { return childID.ReplaceAllString(text, "CHILD") }

// family wants a child in the log before it is prompted.
func (w *witness) family(m *wire.Message) {
	session, kind, err := subjects.ParseCommand(m.Subject)
	if err != nil || kind != schemas.CommandSubagentPrompt {
		return
	}
	w.catchUp()
	if turn := w.turn(); turn != nil {
		for _, c := range turn.Calls { // one that has answered already is prompted again where that is not known
			if c.Subagent == session {
				w.dispatched[c.Key] = true
				return
			}
		}
	}
	w.wrong("sub-agent %s is prompted when the log, at %d, has no such child", session, w.state.Seq)
}
