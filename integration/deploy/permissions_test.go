//go:build unix

package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// runnerGrant is the role of a runner.
func runnerGrant(t *testing.T) permissions.Grant {
	t.Helper()
	u := permissions.User{Name: "runner", Roles: []permissions.Name{permissions.Runner}}
	g, err := u.Grant(schemas.Subjects{})
	if err != nil || !g.Responses {
		t.Fatalf("%v, %+v", err, g)
	}
	return permissions.Grant{Publish: g.Publish, Subscribe: g.Subscribe}
}

// workerGrant is the role of a worker for each of the built-in tools, under any id, and making their queues and
// announcing what the root has for prompts.
func workerGrant(t *testing.T) (all permissions.Grant) {
	t.Helper()
	add := func(to *[]string, subject string) {
		if !slices.Contains(*to, subject) {
			*to = append(*to, subject)
		}
	}
	for _, tool := range []string{"bash", "edit", "find", "grep", "ls", "read", "write"} {
		u := permissions.User{Name: "toolworker", Roles: []permissions.Name{permissions.Worker}, Queue: tool, Worker: "any"}
		g, err := u.Grant(schemas.Subjects{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range append(g.Publish, "$JS.API.CONSUMER.CREATE.AGENT_TOOL."+tool+".>") {
			add(&all.Publish, strings.Replace(s, "."+tool+".any", "."+tool+".*", 1))
		}
		for _, s := range g.Subscribe {
			add(&all.Subscribe, s)
		}
	}
	u := permissions.User{Name: "toolworker", Roles: []permissions.Name{permissions.Resources}, Worker: "any"}
	g, err := u.Grant(schemas.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Publish {
		add(&all.Publish, strings.Replace(s, ".any", ".*", 1))
	}
	return all
}

// permissionsFile is the text of nats/permissions.conf.
func permissionsFile(t *testing.T) string {
	t.Helper()
	list := func(subjects []string) string {
		var b strings.Builder
		for _, s := range slices.Sorted(slices.Values(subjects)) {
			b.WriteString("          " + strconv.Quote(s) + "\n")
		}
		return b.String()
	}
	user := func(name string, g permissions.Grant, more string) string {
		return fmt.Sprintf("    {\n      user: %s, password: $%s_PASSWORD\n      permissions: {\n"+
			"        publish: { allow: [\n%s        ] }\n"+
			"        subscribe: { allow: [\n%s        ] }%s\n      }\n    }\n", name,
			strings.ToUpper(name), list(g.Publish), list(g.Subscribe), more)
	}
	return "# The users of the bus. Passwords are variables of the servers' environment. Clients get users of their " +
		"own: see\n# docs/operations.md#permissions. Made by: go test ./integration/deploy -run Permissions -update\n" +
		"authorization {\n  users: [\n" +
		"    { user: operator, password: $OPERATOR_PASSWORD } # may do everything\n" +
		user("runner", runnerGrant(t), "\n        allow_responses: true") +
		user("toolworker", workerGrant(t), "") + "  ]\n}\n"
}

// TestPermissions compares the users of the servers with the roles.
func TestPermissions(t *testing.T) {
	path, want := filepath.Join(deploy, "nats/permissions.conf"), permissionsFile(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, read(t, path)); d != "" {
		t.Errorf("%s (-roles +file):\n%s", path, d)
	}
	o := natsOptions(t)
	granted := map[string]permissions.Grant{}
	for _, u := range o.Users {
		if u.Password != passwords[u.Username] {
			t.Errorf("user %s has the password %q", u.Username, u.Password)
		}
		if u.Permissions != nil {
			granted[u.Username] = permissions.Grant{Publish: u.Permissions.Publish.Allow,
				Subscribe: u.Permissions.Subscribe.Allow}
		}
	}
	sorted := func(g permissions.Grant) permissions.Grant {
		slices.Sort(g.Publish)
		slices.Sort(g.Subscribe)
		return g
	}
	if d := cmp.Diff(map[string]permissions.Grant{"runner": sorted(runnerGrant(t)), "toolworker": sorted(workerGrant(t))},
		granted); d != "" {
		t.Errorf("what a server makes of them (-want +got):\n%s", d)
	}
	if o.JetStreamMaxStore == 0 || !o.SyncAlways || o.Cluster.Name == "" || o.HTTPPort != 8222 {
		t.Errorf("nats.conf: store %d, sync %v, cluster %q, monitoring %d", o.JetStreamMaxStore, o.SyncAlways,
			o.Cluster.Name, o.HTTPPort)
	}
}

// passwords are those that tests give the users.
var passwords = map[string]string{"runner": "r-secret", "toolworker": "t-secret", "operator": "o-secret"}

// The servers of a cluster are told, here and in the document, to trace nothing to the API.
func TestRoutesDenyTraces(t *testing.T) {
	o, denied := natsOptions(t), embedded.Untraced()
	if o.Cluster.Permissions == nil || !slices.Equal(o.Cluster.Permissions.Import.Deny, denied) {
		t.Errorf("the routes of nats.conf have the permissions %+v, want to deny %q", o.Cluster.Permissions, denied)
	}
	document := read(t, "../../docs/operations.md")
	for _, subject := range denied {
		if !strings.Contains(document, `"`+subject+`"`) {
			t.Errorf("docs/operations.md does not deny %s", subject)
		}
	}
}

// natsOptions are what a server reads in nats.conf.
func natsOptions(t *testing.T) *server.Options {
	t.Helper()
	for user, password := range passwords {
		t.Setenv(strings.ToUpper(user)+"_PASSWORD", password)
	}
	o, err := server.ProcessConfigFile(filepath.Join(deploy, "nats/nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return o
}
