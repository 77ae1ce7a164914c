package main

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// TestTheTableIsThePackages holds the rows of docs/operations.md against the roles that configurations are rendered
// from.
func TestTheTableIsThePackages(t *testing.T) {
	t.Parallel()
	for row, role := range map[string]permissions.Name{roleSender: permissions.Sender, roleApprover: permissions.Approver,
		roleViewer: permissions.Viewer, roleWorker: permissions.Worker, roleAsker: permissions.ModelUser,
		roleKeyUser: permissions.KeyUser, roleProfiles: permissions.Profiles,
		roleDeleter: permissions.Deleter} {
		u := permissions.User{Name: "u", Roles: []permissions.Name{role}, Session: "s1", Queue: "bash", Worker: "w1"}
		g, err := u.Grant(schemas.Subjects{})
		if err != nil {
			t.Fatal(err)
		}
		documented := granted(t, "u", nil, row)
		for what, pair := range map[string][2][]string{
			"publish":   {g.Publish, documented.Publish.Allow},
			"subscribe": {g.Subscribe, documented.Subscribe.Allow},
		} {
			if d := cmp.Diff(slices.Sorted(slices.Values(pair[0])), slices.Sorted(slices.Values(pair[1]))); d != "" {
				t.Errorf("%s may %s (-package +document):\n%s", role, what, d)
			}
		}
	}
}
