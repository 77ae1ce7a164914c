package driver_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// profiles has a service of session_before_fork in each profile, with the profile's name, but not in "without".
type profiles struct{}

func (profiles) Profile(_ context.Context, name string) (p schemas.Profile, _ error) {
	if name != "without" {
		p.Hooks = []schemas.HookRef{{Hook: schemas.HookSessionBeforeFork, Service: name}}
	}
	return p, nil
}

// A copy from an entry is decided by the runner's services and then by those of the profile that the copied session had
// at the entry, whatever profile the new session has, or the copied one by now. A host that takes over after the
// question asks the same.
func TestForksAreDecidedByTheProfileOfTheCopied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		copied, later, own string // profiles of the copied session, and of the new one; empty sets none
		want               []string
	}{
		"its own":                         {copied: "strict", want: []string{"runner", "strict"}},
		"without services":                {copied: "without", want: []string{"runner"}},
		"the default":                     {want: []string{"runner", "default"}},
		"its own, not the new session's":  {copied: "strict", own: "without", want: []string{"runner", "strict"}},
		"the default, not the new one's":  {own: "without", want: []string{"runner", "default"}},
		"that of the entry, not of today": {copied: "strict", later: "without", want: []string{"runner", "strict"}},
		"that of an entry before its own": {later: "strict", want: []string{"runner", "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dying, die := context.WithCancel(t.Context())
			var asked []string
			ask := servicesFunc(func(_ context.Context, to schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer,
				err error) {
				asked = append(asked, to.Service)
				if die(); req.Session != "s2" || req.Fork == nil || req.Fork.Session != "s1" {
					t.Errorf("asked about %+v", req)
				}
				a.Cancel = to.Service == "strict"
				return a, nil
			})
			model := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				return looptest.Say("hi"), nil
			}
			change := func(o *host.Options) {
				o.Services, o.Profiles, o.Profile = ask, profiles{}, "default"
				o.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookSessionBeforeFork, Service: "runner"}}
			}
			r := looptest.New(t, looptest.ModelFunc(model), change)
			deliver := func(ctx context.Context, id, session string, data schemas.CommandData) error {
				return r.Host.Deliver(ctx, schemas.Command{ID: id, Session: session, Data: data}, nil)
			}
			set := func(id, session, profile string) {
				if profile == "" {
					return
				}
				if err := deliver(t.Context(), id, session, &schemas.SetProfile{Profile: profile}); err != nil {
					t.Fatal(err)
				}
			}
			set("set1", "s1", c.copied)
			r.Deliver("p1", looptest.Prompt("one"))
			set("set2", "s1", c.later)
			set("set3", "s2", c.own)

			branch := &schemas.Branch{Session: "s1", EntryID: first(r)}
			if err := deliver(dying, "f1", "s2", branch); err == nil {
				t.Error("the host that dies has decided")
			}
			r.Host = r.NewHost(looptest.ModelFunc(model), change)
			if err := deliver(t.Context(), "f1", "s2", branch); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(append([]string{"runner"}, c.want...), asked); d != "" {
				t.Errorf("asked (-want +got):\n%s", d)
			}
			var decided []string
			log, err := r.Store.Open(t.Context(), "s2")
			if err != nil {
				t.Fatal(err)
			}
			for e, err := range log.Read(t.Context(), 1) {
				if d, ok := e.Data.(*schemas.HookDecision); err != nil || ok && d.Block != (c.want[len(c.want)-1] == "strict") {
					t.Errorf("%+v, %v", e.Data, err)
				} else if ok {
					decided = append(decided, d.By)
				}
			}
			if len(decided) != 1 {
				t.Errorf("decisions %q", decided)
			}
		})
	}
}
