package schemas_test

import (
	"maps"
	"os"
	"regexp"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// words are the parts of a document that stand in backticks.
func words(t *testing.T, file string) map[string]bool {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, quoted := range regexp.MustCompile("`[^`\n]+`").FindAllString(string(raw), -1) {
		for _, word := range regexp.MustCompile(`[A-Za-z_]+`).FindAllString(quoted, -1) {
			found[word] = true
		}
	}
	return found
}

var queryKinds = []schemas.QueryKind{schemas.QuerySessions, schemas.QueryApprovals, schemas.QueryModels,
	schemas.QueryState, schemas.QueryMessages, schemas.QueryEvents, schemas.QueryTree, schemas.QueryStats,
	schemas.QueryTools, schemas.QueryOutcome}

// named are all commands, events, queries and hooks.
func named() (kinds []string) {
	for _, kind := range schemas.CommandKinds() {
		kinds = append(kinds, string(kind))
	}
	updates := []schemas.EventType{schemas.EventMessageUpdate, schemas.EventToolExecutionUpdate}
	for _, kind := range append(schemas.DurableEventTypes(), updates...) {
		kinds = append(kinds, string(kind))
	}
	for _, hook := range schemas.HookNames() {
		kinds = append(kinds, string(hook))
	}
	for _, kind := range queryKinds {
		kinds = append(kinds, string(kind))
	}
	return kinds
}

// Every command, event, query and hook has its place in the AsyncAPI document, and the README leads to the page that
// says what it does in one step.
func TestTheReadmeLeadsToTheProtocol(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	led := words(t, "../README.md")
	for _, link := range regexp.MustCompile(`\]\((docs/[a-z-]+\.md)`).FindAllStringSubmatch(string(readme), -1) {
		maps.Copy(led, words(t, "../"+link[1]))
	}
	api, err := os.ReadFile("../docs/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range named() {
		if !led[kind] {
			t.Errorf("neither README.md nor a page that it links to names %s", kind)
		}
		if !regexp.MustCompile(`\b` + kind + `\b`).Match(api) {
			t.Errorf("docs/asyncapi.yaml does not name %s", kind)
		}
	}
}

// Every command, event, query and hook is named on the pages that describe them.
func TestTheProtocolIsDescribed(t *testing.T) {
	t.Parallel()
	protocol, hooks, queries := words(t, "../docs/protocol.md"), words(t, "../docs/hooks.md"),
		words(t, "../docs/queries.md")
	for _, kind := range schemas.CommandKinds() {
		if !protocol[string(kind)] {
			t.Errorf("docs/protocol.md does not name the command %s", kind)
		}
	}
	events := append(schemas.DurableEventTypes(), schemas.EventMessageUpdate, schemas.EventToolExecutionUpdate)
	for _, kind := range events {
		if !protocol[string(kind)] {
			t.Errorf("docs/protocol.md does not name the event %s", kind)
		}
	}
	for _, hook := range schemas.HookNames() {
		if !protocol[string(hook)] || !hooks[string(hook)] {
			t.Errorf("docs/protocol.md and docs/hooks.md do not both name the hook %s", hook)
		}
	}
	for _, kind := range queryKinds {
		if !queries[string(kind)] {
			t.Errorf("docs/queries.md does not name the query %s", kind)
		}
	}
}
