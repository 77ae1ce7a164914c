package permissions

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Table renders the roles as a table in Markdown, for the prefix agent, the session s1, the queue bash and a hook.
// Braces are kept.
func Table() string {
	sample := User{Session: "s1", Queue: "bash", Worker: "<worker>", Hook: "beforeToolCall.policy"}
	var b strings.Builder
	b.WriteString("| role | who has it | account of its own | publish | subscribe |\n|---|---|---|---|---|\n")
	for _, r := range roles {
		publish := sample.cell(r.Publish, r.Deny)
		if r.Answers != "" {
			publish = joined(publish, "the inboxes of those who ask (`"+inboxOf("<user>", r.Answers)+"`)")
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

// account says whether the role can be had by an account of its own, and what it can do otherwise.
func (r Role) account() string {
	own := "no"
	if r.OwnAccount() {
		own = "yes"
	}
	if r.Trusted {
		own += "; in one account **it can delete every stream**"
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

// after is what a cell denies.
func after(cell string) string {
	_, denied, _ := strings.Cut(cell, ", denied")
	denied, _, _ = strings.Cut(denied, ", answers")
	return denied
}

// Command is a command of the programs, and the roles that it needs of its user.
type Command struct {
	Name  string
	Roles []Name
	Note  string
}

// Commands returns what each command needs, with --nats or --context. The slices are shared and must not be changed.
func Commands() []Command { return commands }

var commands = []Command{
	{Name: "runner serve, toolworker", Roles: []Name{Runner}},
	{Name: "runner run, runner chat", Roles: []Name{Sender, Viewer}, Note: "`approver` to answer, `inputs` and " +
		"`objects` for what is big; the `set_…` commands of the flags that are given"},
	{Name: "runner list, runner tools, runner profiles", Roles: []Name{Observer}},
	{Name: "runner tools --session S, replay show, state, export S", Roles: []Name{Viewer},
		Note: "`objects` for events over 256 KiB"},
	{Name: "replay verify S", Roles: []Name{Viewer, Verifier},
		Note: "the same; with replicas it asks the leader: `$JS.API.STREAM.MSG.GET.AGENT_EVT`"},
	{Name: "replay list, tree, diff, verify, export --all", Roles: []Name{Auditor}, Note: "the same"},
	{Name: "replay rerun", Roles: []Name{Auditor, Rerunner}, Note: "the same; `inputs` where the prompt is over 400 KiB"},
	{Name: "replay import", Roles: []Name{Deleter}},
	{Name: "runner sessions list", Roles: []Name{Lister}},
	{Name: "runner sessions export S", Roles: []Name{Viewer}, Note: "`objects` for events over 256 KiB"},
	{Name: "runner sessions delete, archive, restore", Roles: []Name{Deleter}},
	{Name: "console", Roles: []Name{Lister, Querier, Viewer}, Note: "`sender` and `approver` to act, and for its other " +
		"views [what it needs](console.md#what-a-user-needs)"},
}

// CommandTable renders what the commands need as a table in Markdown.
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
