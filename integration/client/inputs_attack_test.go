package client_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// uploader is a user that may send large inputs to one session, with the permissions of the table of roles.
func uploader(t *testing.T, name, session string) *server.Permissions {
	t.Helper()
	grant, err := permissions.User{Name: name, Session: session,
		Roles: []permissions.Name{permissions.Sender, permissions.Inputs}}.Grant(schemas.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Allow: grant.Publish},
		Subscribe: &server.SubjectPermission{Allow: append(grant.Subscribe, "_INBOX_"+name+".>")}}
}

// A user that may upload inputs can neither list, read, delete nor replace inputs of other users.
func TestUploadersAreKeptApart(t *testing.T) {
	t.Parallel()
	const bucket, metas = "OBJ_" + schemas.BucketInputs, "$O." + schemas.BucketInputs + ".M."
	as := guarded(t, map[string]*server.Permissions{"ann": uploader(t, "ann", "s1"), "eve": uploader(t, "eve", "s2")})
	admin := system.Connect(t, as("admin"), "admin")
	if err := streams.Setup(deadline(t), admin, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	violations := make(chan error, 100)
	user := func(name string) *nats.Conn {
		nc, err := nats.Connect(as(name), nats.CustomInboxPrefix("_INBOX_"+name),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	ann, err := client.New(user("ann"), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	secret := schemas.Input{Text: strings.Repeat("secret ", 100<<10)}
	if _, err := ann.Session("s1").Send(deadline(t), &schemas.Prompt{Input: secret}); err != nil {
		t.Fatalf("ann sends a large input: %v", err)
	}
	stored, err := admin.JetStream().Stream(deadline(t), bucket)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := stored.GetLastMsgForSubject(deadline(t), metas+">")
	if err != nil {
		t.Fatal(err)
	}

	// A request without permission gets no answer, so eve sends all of them at once.
	var asking sync.WaitGroup
	for subject, request := range map[string]string{
		"$JS.API.STREAM.INFO." + bucket:                                `{"subjects_filter":">"}`,
		"$JS.API.DIRECT.GET." + bucket + "." + metas + ">":             "",
		"$JS.API.DIRECT.GET." + bucket:                                 `{"seq":1}`,
		"$JS.API.STREAM.MSG.GET." + bucket:                             `{"seq":1}`,
		"$JS.API.STREAM.PURGE." + bucket:                               "",
		"$JS.API.STREAM.MSG.DELETE." + bucket:                          `{"seq":1}`,
		"$JS.API.CONSUMER.CREATE." + bucket + ".x." + metas + ">":      `{"stream_name":"` + bucket + `"}`,
		"$JS.API.CONSUMER.CREATE." + bucket + ".x.$O.agent_inputs.C.>": `{"stream_name":"` + bucket + `"}`,
	} {
		eve := user("eve")
		asking.Go(func() {
			if m, err := eve.Request(subject, []byte(request), time.Second); err == nil {
				t.Errorf("eve got an answer at %s: %.200s", subject, m.Data)
			}
			if err := eve.LastError(); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("eve may publish %s: %v", subject, err)
			}
		})
	}
	asking.Wait()
	eve := user("eve")
	// With the name of the pieces of an object, eve could add one. A server tells everybody the newest id.
	var described jetstream.ObjectInfo
	if err := json.Unmarshal(meta.Data, &described); err != nil || described.NUID == "" {
		t.Fatalf("description %s: %v", meta.Data, err)
	}
	asked := nats.NewMsg("$O." + schemas.BucketInputs + ".C.x")
	asked.Header.Set("Nats-Expected-Last-Msg-Id", "unknown")
	told, err := eve.RequestMsgWithContext(deadline(t), asked)
	if err != nil || !strings.Contains(string(told.Data), "wrong last msg ID") ||
		strings.Contains(string(told.Data), described.NUID) {
		t.Errorf("eve is told %v, %v; the pieces are %s", told, err, described.NUID)
	}
	for _, subject := range []string{metas + "eHg", meta.Subject, "$O." + schemas.BucketInputs + ".C.x"} {
		for _, rollup := range []string{"all", "sub"} {
			m := nats.NewMsg(subject)
			m.Header.Set("Nats-Rollup", rollup)
			if ack, err := eve.RequestMsgWithContext(deadline(t), m); err != nil || !strings.Contains(string(ack.Data),
				"roll-ups not permitted") && !strings.Contains(string(ack.Data), "rollup not permitted") {
				t.Errorf("eve rolls %s up with %s: %v, %v", subject, rollup, ack, err)
			}
		}
	}

	sys := system.Start(t, as("admin"), system.Options{Model: scripted.New(scripted.Text("I see"))})
	if res := result(t, connect(t, sys.URL).Session("s1").Run(firstPrompt(t, sys))); res.Text() != "I see" {
		t.Errorf("ann's prompt: %+v", res)
	}
	t.Run("descriptions", func(t *testing.T) { badDescriptions(t, sys, eve) })
}

func firstPrompt(t *testing.T, s *system.System) (id string) {
	t.Helper()
	s.Until(t, "s1", "the prompt", func(e schemas.Event) bool {
		a, ok := e.Data.(*schemas.CommandAccepted)
		if ok {
			id = a.CommandID
		}
		return ok
	})
	return id
}

// badDescriptions stores objects with invalid descriptions. A reference to one is rejected once and in time.
func badDescriptions(t *testing.T, s *system.System, eve *nats.Conn) {
	store := func(subject, data string) {
		t.Helper()
		if ack, err := eve.Request("$O."+schemas.BucketInputs+subject, []byte(data), 5*time.Second); err != nil ||
			strings.Contains(string(ack.Data), "error") {
			t.Fatalf("store %s: %v, %v", subject, ack, err)
		}
	}
	store(".C.half", "half")
	store(".C.empty", "")
	store(".C.crumbs", "a")
	store(".C.crumbs", "b")
	for i, c := range []struct{ meta, want string }{
		{`{"nuid":"half","size":100,"chunks":1}`, "uploaded whole"},
		{`{"nuid":"half","size":3,"chunks":1}`, "uploaded whole"},
		{`{"nuid":"none","size":100,"chunks":1}`, "uploaded whole"},
		{`{"nuid":"empty","size":100,"chunks":0}`, "a piece before the last"},
		{`{"nuid":"crumbs","size":2,"chunks":2}`, "a piece before the last"},
		{`{"nuid":">","size":100,"chunks":1}`, "uploaded whole"},
		{`{"nuid":"*","size":100,"chunks":1}`, "uploaded whole"},
		{`{"nuid":"a.b","size":100,"chunks":1}`, "uploaded whole"},
		{`{"size":100,"chunks":1}`, "uploaded whole"},
		{`{"options":{"link":{"bucket":"agent_inputs","name":"NAME"}},"nuid":"half","size":4}`, "another digest"},
		{`{"options":{"link":{"bucket":"agent_blobs","name":"x"}}}`, "uploaded whole"},
		{`{"nuid":"half","size":18446744073709551615}`, "more than"},
		{`{"nuid":"half","size":8388609}`, "more than"},
		{`{"nuid":"half","size":-1}`, "uploaded whole"},
		{`{"deleted":true,"nuid":"half"}`, "another digest"},
		{`[`, "uploaded whole"},
		{``, "uploaded whole"},
	} {
		name := strings.Repeat("0", 62) + string(rune('a'+i/16%6)) + string("0123456789abcdef"[i%16]) + "-x"
		store(".M."+base64.URLEncoding.EncodeToString([]byte(name)), strings.ReplaceAll(c.meta, "NAME", name))
		got := refused(t, s, eve, "s2", schemas.CommandPrompt, schemas.InputScheme+name, "")
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: %q does not contain %q", c.meta, got, c.want)
		}
	}
	long := schemas.InputScheme + strings.Repeat("0", 64) + "-" + strings.Repeat("x", 65)
	if got := refused(t, s, eve, "s2", schemas.CommandPrompt, long, ""); !strings.Contains(got, "dataref is not") {
		t.Errorf("a long name: %q", got)
	}
}
