package permissions

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Table renders the roles as a Markdown table, for the prefix agent, the session s1, the queue bash and a hook.
// Braces are kept.
func Table() string {
	sample := User{Session: "s1", Queue: "bash", Worker: "<worker>", Hook: "beforeToolCall.policy"}
	var b strings.Builder
	b.WriteString("| role | who has it | account of its own | publish | subscribe |\n|---|---|---|---|---|\n")
	for _, r := range roles {
		publish := sample.cell(r.Publish, r.Deny)
		if r.Answers != "" {
			publish = joined(publish, "the inboxes of callers (`"+inboxOf("<user>", r.Answers)+"`)")
		}
		if r.Responses {
			publish = joined(publish, "answers to requests (`allow_responses`)")
		}
		subscribe := sample.cell(r.Subscribe, append(r.Deny[:len(r.Deny):len(r.Deny)], r.DenySubscribe...))
		if !r.NoInbox {
			subscribe = joined("own inbox", subscribe)
		}
		if r.Name == KeylessRunner {
			publish, subscribe = "as `runner`, denied"+after(publish), "as `runner`, denied"+after(subscribe)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", r.Name, sample.fill(r.About, schemas.Subjects{}), r.account(),
			publish, subscribe)
	}
	return b.String()
}

// account describes whether the role can have a separate account, and the risk if it has none.
func (r Role) account() string {
	own := "no"
	if r.OwnAccount() {
		own = "yes"
	}
	if r.Harm != "" {
		own += "; in one account **it can " + r.Harm + "**"
	}
	return own
}

// cell lists subjects.
func (u User) cell(allow, deny []string) string {
	text := u.listed(allow)
	if len(deny) > 0 {
		text += ", denied " + u.listed(deny)
	}
	return text
}

func (u User) listed(templates []string) string {
	var quoted []string
	for _, t := range templates {
		subject, queue, _ := strings.Cut(u.fill(t, schemas.Subjects{}), " ")
		subject = "`" + subject + "`"
		if queue != "" {
			subject += " (queue `" + queue + "`)"
		}
		quoted = append(quoted, subject)
	}
	return strings.Join(quoted, ", ")
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + ", " + b
}

// after returns the part of a cell that lists denied subjects.
func after(cell string) string {
	_, denied, _ := strings.Cut(cell, ", denied")
	denied, _, _ = strings.Cut(denied, ", answers")
	return denied
}

// Command is a command of the programs, with the roles that its user needs.
type Command struct {
	Name  string
	Roles []Name
	Note  string
}

// Commands returns the roles that each command needs with --nats or --context. The caller must not modify the slices
// in it.
func Commands() []Command { return commands }

var commands = []Command{
	{Name: "runner serve, toolworker", Roles: []Name{Runner}},
	{Name: "runner run, runner chat", Roles: []Name{Sender, Viewer}, Note: "`approver` to answer, `inputs` and " +
		"`objects` for large data; the `set_…` commands of the given flags"},
	{Name: "runner list, runner tools, runner profiles", Roles: []Name{Observer}},
	{Name: "runner tools --session S, replay show, state, export S", Roles: []Name{Viewer},
		Note: "`objects` for events over 256 KiB"},
	{Name: "replay verify S", Roles: []Name{Viewer, Verifier},
		Note: "the same; with replicas it asks the leader: `$JS.API.STREAM.MSG.GET.AGENT_EVT`"},
	{Name: "replay list, tree, diff, verify, export --all", Roles: []Name{Auditor}, Note: "the same"},
	{Name: "replay rerun", Roles: []Name{Auditor, Rerunner}, Note: "the same; `inputs` for a prompt over 400 KiB"},
	{Name: "replay import", Roles: []Name{Deleter}},
	{Name: "runner sessions list", Roles: []Name{Lister}},
	{Name: "runner sessions export S", Roles: []Name{Viewer}, Note: "`objects` for events over 256 KiB"},
	{Name: "runner sessions delete, archive, restore", Roles: []Name{Deleter}},
	{Name: "console", Roles: []Name{Lister, Querier, Viewer}, Note: "`sender` and `approver` to act; other views: " +
		"[what a user needs](console.md#what-a-user-needs)"},
}

// CommandTable renders the roles that the commands need as a Markdown table.
func CommandTable() string {
	var b strings.Builder
	b.WriteString("| command | roles | besides |\n|---|---|---|\n")
	for _, c := range commands {
		var names []string
		for _, n := range c.Roles {
			names = append(names, "`"+string(n)+"`")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.ReplaceAll(c.Name, ", ", "`, `"), strings.Join(names, ", "), c.Note)
	}
	return b.String()
}
