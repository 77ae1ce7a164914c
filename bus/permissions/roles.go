package permissions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Name is the name of a role.
type Name string

// The roles that clients of a deployment have.
const (
	Sender     Name = "sender"      // sends commands to one session
	Approver   Name = "approver"    // answers a session's approval requests
	LiveViewer Name = "live_viewer" // sees what happens in one session from now on
	ModelUser  Name = "model_user"  // asks models behind the bus
	KeyUser    Name = "key_user"    // asks for providers' keys
	Profiles   Name = "profiles"    // writes profiles
	Viewer     Name = "viewer"      // reads a session's log and sees what happens
	Worker     Name = "worker"      // executes the calls of one tool
	Deleter    Name = "deleter"     // deletes, archives and restores all sessions
)

// Role is what those who have it may do. Subjects hold {prefix}, {session}, {queue}, {worker} and {inbox}, which a
// [User] fills in.
type Role struct {
	Name Name
	// About is the role in a few words, as a row of a table begins.
	About     string
	Publish   []string
	Subscribe []string // besides the inbox of its own, which every role has
}

// Importable reports whether the role can be had by an account of its own. Those that make or read consumers cannot.
func (r Role) Importable() bool {
	return !slices.ContainsFunc(r.Publish, func(s string) bool { return strings.Contains(s, ".CONSUMER.") })
}

// roles is the table.
var roles = []Role{
	{Name: Sender, About: "sender of commands to a session", Publish: commands(schemas.CommandPrompt, schemas.CommandSteer,
		schemas.CommandFollowUp, schemas.CommandAbort)},
	{Name: Approver, About: "approver of a session", Publish: commands(schemas.CommandApprove, schemas.CommandDeny)},
	{Name: LiveViewer, About: "viewer of what happens in a session",
		Publish:   []string{"$JS.API.DIRECT.GET.AGENT_EVT.{prefix}.evt.{session}"},
		Subscribe: []string{"{prefix}.live.{session}.>"}},
	{Name: ModelUser, About: "asks models", Publish: []string{"{prefix}.model.request", "{prefix}.model.call.*"}},
	{Name: KeyUser, About: "asks for keys", Publish: []string{"{prefix}.key.*"}},
	{Name: Profiles, About: "writer of profiles",
		Publish: []string{"$KV.agent_profiles.>", "$JS.API.STREAM.INFO.KV_agent_profiles"}},
	{Name: Viewer, About: "viewer of a session, its log included", Publish: []string{
		"$JS.API.DIRECT.GET.AGENT_EVT.{prefix}.evt.{session}",
		"$JS.API.CONSUMER.CREATE.AGENT_EVT.*.{prefix}.evt.{session}",
		"$JS.API.CONSUMER.CREATE.AGENT_UPD.*.{prefix}.live.{session}.update",
		"$JS.API.CONSUMER.INFO.AGENT_EVT.*", "$JS.API.CONSUMER.INFO.AGENT_UPD.*",
		"$JS.API.CONSUMER.MSG.NEXT.AGENT_EVT.*", "$JS.API.CONSUMER.MSG.NEXT.AGENT_UPD.*",
		"$JS.API.CONSUMER.DELETE.AGENT_EVT.*", "$JS.API.CONSUMER.DELETE.AGENT_UPD.*",
		"$JS.API.STREAM.INFO.AGENT_EVT", "$JS.API.STREAM.INFO.AGENT_UPD",
	}, Subscribe: []string{"{prefix}.live.{session}.>"}},
	{Name: Worker, About: "toolworker for a tool", Publish: []string{
		"$JS.API.CONSUMER.INFO.AGENT_TOOL.{queue}", "$JS.API.CONSUMER.MSG.NEXT.AGENT_TOOL.{queue}",
		"$JS.ACK.AGENT_TOOL.{queue}.>", "$JS.ACK.*.*.AGENT_TOOL.{queue}.>",
		"{prefix}.cmd.*.tool_result", "{prefix}.live.*.update", "{prefix}.dead.AGENT_TOOL.*",
		"$KV.agent_tools.{queue}.{worker}", "{prefix}.reply.>",
	}, Subscribe: []string{"{prefix}.cancel.*.*"}},
	{Name: Deleter, About: "deletes, archives and restores sessions", Publish: deleting()},
}

// deleting is what takes every session away. A purge names its subject in the request, which permissions do not see: who
// may delete one session may delete all.
func deleting() (subjects []string) {
	for _, stream := range []string{schemas.StreamTimers, schemas.StreamCommands, schemas.StreamTools,
		schemas.StreamUpdates, schemas.StreamDead, schemas.StreamEvents, "KV_" + schemas.BucketSnapshots,
		"OBJ_" + schemas.BucketBlobs} {
		subjects = append(subjects, "$JS.API.STREAM.PURGE."+stream, "$JS.API.STREAM.INFO."+stream)
	}
	return append(subjects, "$JS.API.STREAM.INFO.KV_agent_sessions", "$JS.API.STREAM.INFO.KV_agent_deletions",
		"$JS.API.DIRECT.GET.AGENT_EVT", "$JS.API.DIRECT.GET.AGENT_EVT.>", "$JS.API.STREAM.MSG.GET.AGENT_EVT",
		"$JS.API.DIRECT.GET.AGENT_TOOL.>", "$JS.API.DIRECT.GET.KV_agent_sessions.>",
		"$JS.API.DIRECT.GET.KV_agent_deletions.>", "$JS.API.DIRECT.GET.OBJ_agent_blobs.>",
		"$JS.API.CONSUMER.CREATE.OBJ_agent_blobs.>", "$JS.API.CONSUMER.DELETE.OBJ_agent_blobs.*",
		"$KV.agent_sessions.>", "$KV.agent_deletions.>", "$O.agent_blobs.>",
		"{prefix}.evt.*", "{prefix}.cmd.*.abort", "{prefix}.cancel.*.*")
}

func commands(kinds ...schemas.CommandKind) (subjects []string) {
	for _, kind := range kinds {
		subjects = append(subjects, "{prefix}.cmd.{session}."+string(kind))
	}
	return subjects
}

// Roles returns all roles, in the order of the table. The slices are shared and must not be changed.
func Roles() []Role { return slices.Clone(roles) }

// User is somebody with roles.
type User struct {
	Name     string // also of its inbox, _INBOX_<name>; a single subject token
	Password string // as the server is to know it: bcrypt, or plain for a test
	Roles    []Name
	Session  string // of the roles that are for one
	Queue    string // of a tool ([schemas.ToolQueue]), of the role [Worker]
	Worker   string // id of the worker
}

// Grant is what a user may do.
type Grant struct{ Publish, Subscribe []string }

// Grant returns what the user may do below a prefix. An error says which name is no subject token, or which role there
// is not or needs what the user does not say.
func (u User) Grant(subjects schemas.Subjects) (g Grant, err error) {
	if err := schemas.CheckToken("user", u.Name); err != nil {
		return g, fmt.Errorf("permissions: %w", err)
	}
	g.Subscribe = []string{"_INBOX_" + u.Name + ".>"}
	for _, name := range u.Roles {
		i := slices.IndexFunc(roles, func(r Role) bool { return r.Name == name })
		if i < 0 {
			return Grant{}, fmt.Errorf("permissions: user %s: there is no role %q", u.Name, name)
		}
		publish, err := u.fill(subjects, roles[i].Publish)
		if err != nil {
			return Grant{}, fmt.Errorf("permissions: user %s, role %s: %w", u.Name, name, err)
		}
		subscribe, err := u.fill(subjects, roles[i].Subscribe)
		if err != nil {
			return Grant{}, fmt.Errorf("permissions: user %s, role %s: %w", u.Name, name, err)
		}
		g.Publish, g.Subscribe = append(g.Publish, publish...), append(g.Subscribe, subscribe...)
	}
	return g, nil
}

// fill writes the names of the user into subjects.
func (u User) fill(subjects schemas.Subjects, templates []string) (filled []string, err error) {
	for _, t := range templates {
		if err := u.check(t); err != nil {
			return nil, err
		}
		filled = append(filled, strings.NewReplacer("{prefix}", subjects.Prefix(), "{session}", u.Session,
			"{queue}", u.Queue, "{worker}", u.Worker).Replace(t))
	}
	return filled, nil
}

// check checks the names that a subject needs.
func (u User) check(template string) error {
	if strings.Contains(template, "{session}") {
		if err := schemas.CheckSession(u.Session); err != nil {
			return err
		}
	}
	if strings.Contains(template, "{queue}") {
		if _, err := schemas.ParseToolQueue(u.Queue); err != nil {
			return err
		}
	}
	if strings.Contains(template, "{worker}") {
		return schemas.CheckToken("worker", u.Worker)
	}
	return nil
}
