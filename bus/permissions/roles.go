package permissions

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Name is the name of a role.
type Name string

// The roles of a deployment.
const (
	Sender        Name = "sender"         // sends commands to one session
	Approver      Name = "approver"       // answers a session's approval requests
	Viewer        Name = "viewer"         // reads a session's log and sees what happens
	Verifier      Name = "verifier"       // proves a session's log, besides reading it
	Inputs        Name = "inputs"         // uploads inputs that are too big for a command
	Objects       Name = "objects"        // reads payloads over 256 KiB
	LiveViewer    Name = "live_viewer"    // sees what happens in one session from now on
	Querier       Name = "querier"        // asks about one session
	Lister        Name = "lister"         // lists sessions and models
	Auditor       Name = "auditor"        // reads all logs
	Observer      Name = "observer"       // lists runners, tools and profiles
	Profiles      Name = "profiles"       // writes profiles
	Hook          Name = "hook"           // is asked at a hook
	Worker        Name = "worker"         // executes the calls of one tool
	Rerunner      Name = "rerunner"       // re-runs sessions, and answers the tools of the reruns
	Resources     Name = "resources"      // announces what a workspace has for prompts
	Deleter       Name = "deleter"        // deletes, archives and restores all sessions
	ModelUser     Name = "model_user"     // asks models behind the bus
	ModelServer   Name = "model_server"   // answers model requests
	KeyUser       Name = "key_user"       // asks for providers' keys
	KeyService    Name = "key_service"    // answers them
	Runner        Name = "runner"         // drives sessions
	RunnerReplies Name = "runner_replies" // sends outcomes to the clients that ask for them
	KeylessRunner Name = "keyless_runner" // drives sessions, and has no keys
)

// Role is what a user who has it may do. In subjects and texts <prefix>, <session>, <queue>, <worker> and <hook> stand
// for names of a [User], <resources> for a worker in the workspace of its queue; braces list alternatives.
type Role struct {
	Name Name
	// About says whose role it is, in a few words.
	About string
	// Publish and Subscribe are the subjects that are allowed. A subject to subscribe may be followed by a space and the
	// queue group.
	Publish, Subscribe []string
	// Deny is denied to publish and to subscribe, DenySubscribe to subscribe.
	Deny, DenySubscribe []string
	// NoInbox is for roles that make no requests. The others may subscribe their user's inbox.
	NoInbox bool
	// Responses is for roles that answer requests, each once.
	Responses bool
	// Answers is for roles that publish to the inboxes of other users, [User].Answers: what they may publish to there.
	Answers string
	// Trusted is for roles that can delete every stream in the account of the streams: as what they are for, or by a
	// request whose reply is the subject of a deletion and whose answer has no payload, which makes it a valid one.
	Trusted bool
}

// roles is the table, in its order.
var roles = []Role{
	{Name: Sender, About: "sends commands to `<session>`",
		Publish: []string{"<prefix>.cmd.<session>.{prompt,steer,follow_up,abort}"}},
	{Name: Approver, About: "answers approval requests of `<session>`",
		Publish: []string{"<prefix>.cmd.<session>.{approve,deny}"}},
	{Name: Viewer, About: "reads the log of `<session>` and follows it", Trusted: true, Publish: []string{
		"$JS.API.DIRECT.GET.AGENT_EVT.<prefix>.evt.<session>",
		"$JS.API.CONSUMER.CREATE.AGENT_EVT.*.<prefix>.evt.<session>",
		"$JS.API.CONSUMER.CREATE.AGENT_UPD.*.<prefix>.live.<session>.update",
		"$JS.API.CONSUMER.{MSG.NEXT,DELETE}.{AGENT_EVT,AGENT_UPD}.*", "$JS.API.STREAM.INFO.AGENT_EVT",
	}, Subscribe: []string{"<prefix>.live.<session>.>"}},
	{Name: Verifier, About: "proves the log of `<session>`, with `viewer`", Trusted: true, Publish: []string{
		"$JS.API.STREAM.INFO.KV_agent_snapshots",
		"$JS.API.DIRECT.GET.KV_agent_snapshots.$KV.agent_snapshots.<session>.*"}},
	// It may not ask what is there: with the names of others' inputs it could refer to them.
	{Name: Inputs, About: "sends inputs over 400 KiB, with `sender`", Publish: []string{"$O.agent_inputs.{C,M}.*"}},
	{Name: Objects, About: "reads events over 256 KiB, of all sessions", Trusted: true, Publish: []string{
		"$JS.API.STREAM.INFO.OBJ_agent_blobs", "$JS.API.DIRECT.GET.OBJ_agent_blobs.$O.agent_blobs.M.>",
		"$JS.API.CONSUMER.CREATE.OBJ_agent_blobs.*.$O.agent_blobs.C.>",
		"$JS.API.CONSUMER.{MSG.NEXT,DELETE}.OBJ_agent_blobs.*"}},
	{Name: LiveViewer, About: "follows `<session>` from now on", Trusted: true,
		Publish:   []string{"$JS.API.DIRECT.GET.AGENT_EVT.<prefix>.evt.<session>"},
		Subscribe: []string{"<prefix>.live.<session>.>"}},
	{Name: Querier, About: "asks about `<session>`", Publish: []string{
		"<prefix>.query.<session>.{state,messages,events,stats,tools,approvals,outcome,tree}"}},
	{Name: Lister, About: "lists sessions and models", Publish: []string{"<prefix>.query.{sessions,approvals,models}"}},
	{Name: Auditor, About: "reads all logs", Trusted: true, Publish: []string{
		"$JS.API.STREAM.INFO.{AGENT_EVT,KV_agent_snapshots}", "$JS.API.DIRECT.GET.AGENT_EVT",
		"$JS.API.DIRECT.GET.AGENT_EVT.<prefix>.evt.*", "$JS.API.DIRECT.GET.KV_agent_snapshots.$KV.agent_snapshots.>",
		"$JS.API.CONSUMER.CREATE.AGENT_EVT.*.<prefix>.evt.*", "$JS.API.CONSUMER.{MSG.NEXT,DELETE}.AGENT_EVT.*"}},
	{Name: Observer, About: "lists runners, tools and profiles", Publish: []string{
		"$SRV.INFO.loopbus-runner", "$JS.API.STREAM.INFO.AGENT_TOOL",
		"$JS.API.CONSUMER.LIST.AGENT_TOOL", "$JS.API.CONSUMER.CREATE.KV_agent_tools.*.$KV.agent_tools.>",
		"$JS.API.CONSUMER.CREATE.KV_agent_profiles.*.$KV.agent_profiles.>",
		"$JS.API.CONSUMER.DELETE.{KV_agent_tools,KV_agent_profiles}.*"}},
	{Name: Profiles, About: "writes profiles",
		Publish: []string{"$KV.agent_profiles.>", "$JS.API.STREAM.INFO.KV_agent_profiles"}},
	{Name: Hook, About: "decides at the hook `<hook>`", Responses: true, NoInbox: true,
		Subscribe: []string{"<prefix>.hook.<hook>"}},
	{Name: Worker, About: "executes the calls of the queue `<queue>`", Trusted: true, Publish: []string{
		"$JS.API.CONSUMER.{INFO,MSG.NEXT}.AGENT_TOOL.<queue>", "$JS.ACK.AGENT_TOOL.<queue>.>",
		"$JS.ACK.*.*.AGENT_TOOL.<queue>.>", "<prefix>.cmd.*.tool_result", "<prefix>.live.*.update",
		"<prefix>.dead.AGENT_TOOL.*", "$KV.agent_tools.<queue>.<worker>", "<prefix>.reply.>",
	}, Subscribe: []string{"<prefix>.cancel.*.*"}},
	// The queues of a rerun have names that nobody knows before, so these are all queues.
	{Name: Rerunner, About: "re-runs sessions, with `auditor`", Trusted: true, Publish: []string{
		"<prefix>.cmd.*.{branch,set_model,set_thinking_level,set_system_prompt,prompt,continue,abort,tool_result}",
		"<prefix>.query.models", "$KV.agent_tools.>", "$JS.API.CONSUMER.CREATE.AGENT_TOOL.>",
		"$JS.API.CONSUMER.{INFO,MSG.NEXT,DELETE}.AGENT_TOOL.*", "$JS.ACK.AGENT_TOOL.>",
		"$JS.API.CONSUMER.CREATE.AGENT_UPD.*.<prefix>.live.*.update", "$JS.API.CONSUMER.{MSG.NEXT,DELETE}.AGENT_UPD.*",
	}, Subscribe: []string{"<prefix>.live.*.>", "<prefix>.cancel.*.*"}},
	// Not part of the worker's: what is announced there is text of system prompts.
	{Name: Resources, About: "announces what its directory has for prompts, with `worker`", Publish: []string{
		"$KV.agent_resources.<resources>"}},
	// A purge names its subject in the request, which permissions do not see: who may delete one session may delete all.
	{Name: Deleter, About: "deletes, archives and restores all sessions", Trusted: true, Publish: []string{
		"$JS.API.STREAM.{PURGE,INFO}.{AGENT_TIMER,AGENT_CMD,AGENT_TOOL,AGENT_UPD,AGENT_DEAD,AGENT_EVT}",
		"$JS.API.STREAM.{PURGE,INFO}.{KV_agent_snapshots,OBJ_agent_blobs}",
		"$JS.API.STREAM.INFO.{KV_agent_sessions,KV_agent_deletions}",
		"$JS.API.DIRECT.GET.AGENT_EVT", "$JS.API.STREAM.MSG.GET.{AGENT_EVT,AGENT_TIMER}",
		"$JS.API.DIRECT.GET.{AGENT_EVT,AGENT_TOOL,KV_agent_sessions,KV_agent_deletions,OBJ_agent_blobs}.>",
		"$JS.API.CONSUMER.CREATE.OBJ_agent_blobs.>", "$JS.API.CONSUMER.DELETE.OBJ_agent_blobs.*",
		"$KV.{agent_sessions,agent_deletions}.>", "$O.agent_blobs.>",
		"<prefix>.evt.*", "<prefix>.cmd.*.abort", "<prefix>.cancel.*.*"}},
	{Name: ModelUser, About: "asks models (`bus/…`)",
		Publish: []string{"<prefix>.model.request", "<prefix>.model.call.*"}},
	{Name: ModelServer, About: "`--serve-models`", Answers: schemas.ModelAnswers + ".>", NoInbox: true,
		Subscribe: []string{"<prefix>.model.request models", "<prefix>.model.call.*"}},
	{Name: KeyUser, About: "`--key-service`", Publish: []string{"<prefix>.key.*"}},
	{Name: KeyService, About: "answers requests for keys", Responses: true, NoInbox: true,
		Subscribe: []string{"<prefix>.key.*"}},
	runner,
	{Name: RunnerReplies, About: "a runner that answers `Loopbus-Reply: outcome`", Answers: ">", NoInbox: true},
	{Name: KeylessRunner, About: "a runner without keys", Publish: runner.Publish, Subscribe: runner.Subscribe,
		Responses: true, Trusted: true, Deny: []string{"<prefix>.key.>"}, DenySubscribe: []string{"<prefix>.model.>"}},
}

var runner = Role{Name: Runner, About: "a runner, and `toolworker` as it is", Responses: true, Trusted: true,
	Publish: []string{
		"<prefix>.>", "$JS.API.>", "$JS.ACK.>",
		"$KV.{agent_tools,agent_resources,agent_runners,agent_snapshots,agent_sessions,agent_deletions,agent_profiles}.>",
		"$O.agent_blobs.>", "$SRV.>",
	}, Subscribe: []string{"<prefix>.>", "$KV.>", "$O.>", "$SRV.>"}}

// OwnAccount reports whether the role can be had by an account of its own. A role that makes consumers cannot: they
// deliver wherever their maker says, in the account of the streams. Nor can one that answers: the requests come to that
// account.
func (r Role) OwnAccount() bool {
	return !r.Responses && r.Answers == "" && !slices.ContainsFunc(r.Publish, func(s string) bool {
		return strings.Contains(s, ".CONSUMER.CREATE.")
	})
}

// Roles returns all roles, in the order of the table. The slices are shared and must not be changed.
func Roles() []Role { return slices.Clone(roles) }

// find returns the role of a name.
func find(name Name) (Role, bool) {
	i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return Role{}, false
	}
	return roles[i], true
}

// expand writes the alternatives of a subject out: NATS has no braces.
func expand(subject string) (all []string) {
	before, rest, found := strings.Cut(subject, "{")
	if !found {
		return []string{subject}
	}
	choices, after, _ := strings.Cut(rest, "}")
	for choice := range strings.SplitSeq(choices, ",") {
		all = append(all, expand(before+choice+after)...)
	}
	return all
}
