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
	Viewer        Name = "viewer"         // reads and follows a session's log
	Verifier      Name = "verifier"       // verifies a session's log, in addition to reading it
	Inputs        Name = "inputs"         // uploads inputs that are too large for a command
	Objects       Name = "objects"        // reads payloads over 256 KiB
	LiveViewer    Name = "live_viewer"    // follows one session live
	Querier       Name = "querier"        // queries one session
	Lister        Name = "lister"         // lists sessions and models
	Auditor       Name = "auditor"        // reads all logs
	Observer      Name = "observer"       // lists runners, tools and profiles
	Profiles      Name = "profiles"       // writes profiles
	Hook          Name = "hook"           // decides at a hook
	Worker        Name = "worker"         // executes the calls of one tool
	Rerunner      Name = "rerunner"       // re-runs sessions and answers the tools of the reruns
	Resources     Name = "resources"      // announces the resources of a workspace for prompts
	Deleter       Name = "deleter"        // deletes, archives and restores all sessions
	ModelUser     Name = "model_user"     // calls models behind the bus
	ModelServer   Name = "model_server"   // serves model calls
	KeyUser       Name = "key_user"       // requests API keys of providers
	KeyService    Name = "key_service"    // serves API keys
	Runner        Name = "runner"         // drives sessions
	RunnerReplies Name = "runner_replies" // sends outcomes to the clients that request them
	KeylessRunner Name = "keyless_runner" // drives sessions without requesting keys
)

// Role defines what a user with the role may do. In subjects and texts, <prefix>, <session>, <queue>, <worker> and
// <hook> stand for names of a [User], and <resources> for the resources key of a worker. Braces list alternatives.
type Role struct {
	Name Name
	// About describes the role in a few words.
	About string
	// Publish and Subscribe are the allowed subjects. A subject of Subscribe may be followed by a space and a queue
	// group.
	Publish, Subscribe []string
	// Deny is denied for publishing and subscribing, DenySubscribe for subscribing only.
	Deny, DenySubscribe []string
	// NoInbox marks roles that make no requests. Users with other roles may subscribe to their inbox.
	NoInbox bool
	// Responses marks roles that answer requests, each once.
	Responses bool
	// Answers, if not "", allows publishing to the inboxes of the users in [User].Answers; it is the part of the
	// inbox subject after the user's prefix.
	Answers string
	// Outcomes marks roles that send commands. If such a user has a separate account, it imports its inbox of the
	// streams' account, to which runners send outcomes.
	Outcomes bool
	// Harm is what users with the role can do in the account of the streams although no permission allows it; "" is
	// nothing. It completes the sentence "The user can …".
	Harm string
}

const (
	// harmDelete is of roles whose purpose it is, and of those that may make a request whose answer has no payload: with
	// the subject of a deletion as its reply subject, the answer is a valid deletion.
	harmDelete = "delete every stream"
	// harmRepeat is of roles that may create consumers: one that delivers without payload to the subject of a reset of a
	// queue's consumer has the calls in flight delivered again, and one that delivers to the subject of a pull takes them.
	harmRepeat = "have calls executed twice or never"
)

// roles is the table, in its order.
var roles = []Role{
	{Name: Sender, About: "sends commands to `<session>`", Outcomes: true,
		Publish: []string{"<prefix>.cmd.<session>.{prompt,steer,follow_up,abort}"}},
	{Name: Approver, About: "answers approval requests of `<session>`", Outcomes: true,
		Publish: []string{"<prefix>.cmd.<session>.{approve,deny}"}},
	{Name: Viewer, About: "reads the log of `<session>` and follows it", Harm: harmDelete, Publish: []string{
		"$JS.API.DIRECT.GET.AGENT_EVT.<prefix>.evt.<session>",
		"$JS.API.CONSUMER.CREATE.AGENT_EVT.*.<prefix>.evt.<session>",
		"$JS.API.CONSUMER.CREATE.AGENT_UPD.*.<prefix>.live.<session>.update",
		"$JS.API.CONSUMER.{MSG.NEXT,DELETE}.{AGENT_EVT,AGENT_UPD}.*", "$JS.API.STREAM.INFO.AGENT_EVT",
	}, Subscribe: []string{"<prefix>.live.<session>.>"}},
	{Name: Verifier, About: "proves the log of `<session>`, with `viewer`", Harm: harmDelete, Publish: []string{
		"$JS.API.STREAM.INFO.KV_agent_snapshots",
		"$JS.API.DIRECT.GET.KV_agent_snapshots.$KV.agent_snapshots.<session>.*"}},
	// No permission to list the bucket: with the names of others' inputs, the user could refer to them.
	{Name: Inputs, About: "sends inputs over 400 KiB, with `sender`", Publish: []string{"$O.agent_inputs.{C,M}.*"}},
	{Name: Objects, About: "reads events over 256 KiB, of all sessions", Harm: harmDelete, Publish: []string{
		"$JS.API.STREAM.INFO.OBJ_agent_blobs", "$JS.API.DIRECT.GET.OBJ_agent_blobs.$O.agent_blobs.M.>",
		"$JS.API.CONSUMER.CREATE.OBJ_agent_blobs.*.$O.agent_blobs.C.>",
		"$JS.API.CONSUMER.{MSG.NEXT,DELETE}.OBJ_agent_blobs.*"}},
	{Name: LiveViewer, About: "follows `<session>` live", Harm: harmDelete,
		Publish:   []string{"$JS.API.DIRECT.GET.AGENT_EVT.<prefix>.evt.<session>"},
		Subscribe: []string{"<prefix>.live.<session>.>"}},
	{Name: Querier, About: "queries `<session>`", Publish: []string{
		"<prefix>.query.<session>.{state,messages,events,stats,tools,approvals,outcome,tree}"}},
	{Name: Lister, About: "lists sessions and models", Publish: []string{"<prefix>.query.{sessions,approvals,models}"}},
	{Name: Auditor, About: "reads all logs", Harm: harmDelete, Publish: []string{
		"$JS.API.STREAM.INFO.{AGENT_EVT,KV_agent_snapshots}", "$JS.API.DIRECT.GET.AGENT_EVT",
		"$JS.API.DIRECT.GET.AGENT_EVT.<prefix>.evt.*", "$JS.API.DIRECT.GET.KV_agent_snapshots.$KV.agent_snapshots.>",
		"$JS.API.CONSUMER.CREATE.AGENT_EVT.*.<prefix>.evt.*", "$JS.API.CONSUMER.{MSG.NEXT,DELETE}.AGENT_EVT.*"}},
	{Name: Observer, About: "lists runners, tools and profiles", Harm: harmRepeat, Publish: []string{
		"$SRV.INFO.loopbus-runner", "$JS.API.STREAM.INFO.AGENT_TOOL",
		"$JS.API.CONSUMER.LIST.AGENT_TOOL", "$JS.API.CONSUMER.CREATE.KV_agent_tools.*.$KV.agent_tools.>",
		"$JS.API.CONSUMER.CREATE.KV_agent_profiles.*.$KV.agent_profiles.>",
		"$JS.API.CONSUMER.DELETE.{KV_agent_tools,KV_agent_profiles}.*"}},
	{Name: Profiles, About: "writes profiles",
		Publish: []string{"$KV.agent_profiles.>", "$JS.API.STREAM.INFO.KV_agent_profiles"}},
	{Name: Hook, About: "decides at the hook `<hook>`", Responses: true, NoInbox: true,
		Subscribe: []string{"<prefix>.hook.<hook>"}},
	// The number of tokens says which token of an acknowledgement names the consumer: 9, or 11 and more. A > in place of
	// them lets a worker take the calls of every queue, because an acknowledgement may ask for the next call.
	{Name: Worker, About: "executes the calls of the queue `<queue>`", Harm: harmDelete, Publish: []string{
		"$JS.API.CONSUMER.{INFO,MSG.NEXT}.AGENT_TOOL.<queue>",
		"$JS.ACK.AGENT_TOOL.<queue>.*.*.*.*.*", "$JS.ACK.*.*.AGENT_TOOL.<queue>.*.*.*.*.>",
		"<prefix>.cmd.*.tool_result", "<prefix>.live.*.update",
		"<prefix>.dead.AGENT_TOOL.*", "$KV.agent_tools.<queue>.<worker>", "<prefix>.reply.>",
	}, Subscribe: []string{"<prefix>.cancel.*.*"}},
	// The names of a rerun's queues are not known in advance, so these are the permissions for all queues.
	{Name: Rerunner, About: "re-runs sessions, with `auditor`", Harm: harmDelete, Publish: []string{
		"<prefix>.cmd.*.{branch,set_model,set_thinking_level,set_system_prompt,prompt,continue,abort,tool_result}",
		"<prefix>.query.models", "$KV.agent_tools.>", "$JS.API.CONSUMER.CREATE.AGENT_TOOL.>",
		"$JS.API.CONSUMER.{INFO,MSG.NEXT,DELETE}.AGENT_TOOL.*", "$JS.ACK.AGENT_TOOL.*.*.*.*.*.*",
		"$JS.API.CONSUMER.CREATE.AGENT_UPD.*.<prefix>.live.*.update", "$JS.API.CONSUMER.{MSG.NEXT,DELETE}.AGENT_UPD.*",
	}, Subscribe: []string{"<prefix>.live.*.>", "<prefix>.cancel.*.*"}},
	// Not part of the role worker: what is announced there becomes text of system prompts.
	{Name: Resources, About: "announces prompt resources, with `worker`", Publish: []string{
		"$KV.agent_resources.<resources>"}},
	// A purge names its subject in the payload, which permissions do not cover: a user who may delete one session may
	// delete all.
	{Name: Deleter, About: "deletes, archives and restores all sessions", Harm: harmDelete, Publish: []string{
		"$JS.API.STREAM.{PURGE,INFO}.{AGENT_TIMER,AGENT_CMD,AGENT_TOOL,AGENT_UPD,AGENT_DEAD,AGENT_EVT}",
		"$JS.API.STREAM.{PURGE,INFO}.{KV_agent_snapshots,OBJ_agent_blobs}",
		"$JS.API.STREAM.INFO.{KV_agent_sessions,KV_agent_deletions}",
		"$JS.API.DIRECT.GET.{AGENT_EVT,KV_agent_deletions,OBJ_agent_blobs}",
		"$JS.API.STREAM.MSG.GET.{AGENT_EVT,AGENT_TIMER}",
		"$JS.API.DIRECT.GET.{AGENT_EVT,AGENT_TOOL,KV_agent_sessions,KV_agent_deletions,OBJ_agent_blobs}.>",
		"$JS.API.CONSUMER.CREATE.OBJ_agent_blobs.>", "$JS.API.CONSUMER.{MSG.NEXT,DELETE}.OBJ_agent_blobs.*",
		"$KV.{agent_sessions,agent_deletions}.>", "$O.agent_blobs.>",
		"<prefix>.evt.*", "<prefix>.cmd.*.abort", "<prefix>.cancel.*.*"}},
	{Name: ModelUser, About: "calls models (`bus/…`)",
		Publish: []string{"<prefix>.model.request", "<prefix>.model.call.*"}},
	// Servers map the reply subjects of requests from other accounts to subjects below _R_, which cannot be guessed.
	{Name: ModelServer, About: "`--serve-models`", Answers: schemas.ModelAnswers + ".>", NoInbox: true,
		Publish:   []string{"_R_.>"},
		Subscribe: []string{"<prefix>.model.request models", "<prefix>.model.call.*"}},
	{Name: KeyUser, About: "`--key-service`", Publish: []string{"<prefix>.key.*"}},
	{Name: KeyService, About: "answers requests for keys", Responses: true, NoInbox: true,
		Subscribe: []string{"<prefix>.key.*"}},
	runner,
	{Name: RunnerReplies, About: "a runner that answers `Loopbus-Reply: outcome`", Answers: ">", NoInbox: true},
	{Name: KeylessRunner, About: "a runner without keys", Publish: runner.Publish, Subscribe: runner.Subscribe,
		Responses: true, Harm: harmDelete, Deny: []string{"<prefix>.key.>"}, DenySubscribe: []string{"<prefix>.model.>"}},
}

// The bridges of a runner upload inputs, like a user with the role [Inputs].
var runner = Role{
	Name: Runner, About: "a runner; a `toolworker` without `--leave-streams`", Responses: true, Harm: harmDelete,
	Publish: []string{
		"<prefix>.>", "$JS.API.>", "$JS.ACK.>",
		"$KV.{agent_tools,agent_resources,agent_runners,agent_snapshots,agent_sessions,agent_deletions,agent_profiles}.>",
		"$O.agent_blobs.>", "$O.agent_inputs.{C,M}.*", "$SRV.>",
	}, Subscribe: []string{"<prefix>.>", "$KV.>", "$O.>", "$SRV.>"}}

// OwnAccount reports whether the role can be rendered as a separate account. A role that creates consumers cannot: in
// the account of the streams, a consumer delivers to any subject. Nor can a role that answers requests, which arrive
// in the account of the streams.
func (r Role) OwnAccount() bool {
	return !r.Responses && r.Answers == "" && !slices.ContainsFunc(r.Publish, func(s string) bool {
		return strings.Contains(s, ".CONSUMER.CREATE.")
	})
}

// Roles returns all roles in the order of the table. The caller must not modify the slices in them.
func Roles() []Role { return slices.Clone(roles) }

// find returns a role by name.
func find(name Name) (Role, bool) {
	i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name })
	if i < 0 {
		return Role{}, false
	}
	return roles[i], true
}

// expand expands the braces of a subject, which NATS does not support.
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
