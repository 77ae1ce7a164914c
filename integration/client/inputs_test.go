package client_test

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver/drivertest"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// An input that is too large for a command is uploaded, and the model receives all of it. A repeated input is uploaded
// again, because the uploader cannot see whether it exists.
func TestInputsByReference(t *testing.T) {
	t.Parallel()
	model := &drivertest.Recorder{Model: scripted.New(scripted.Text("a picture"))}
	s := system.StartAlone(t, system.Options{Model: model})
	c := connect(t, s.URL)
	image := schemas.Image{MimeType: "image/png", Data: base64.StdEncoding.EncodeToString(make([]byte, 2<<20))}
	in := schemas.Input{Text: "what is this?", Images: []schemas.Image{image}}
	for range 2 {
		run, err := c.Session("s1").Prompt(deadline(t), in, client.WithID("p1"))
		if err != nil {
			t.Fatal(err)
		}
		if res := result(t, run); res.Text() != "a picture" {
			t.Errorf("got %+v", res)
		}
	}
	asked := model.Requests("s1")
	if len(asked) != 1 {
		t.Fatalf("the model was asked %d times", len(asked))
	}
	got := asked[0].Messages
	message, ok := got[len(got)-1].(*schemas.UserMessage)
	if !ok || len(message.Content) != 2 || message.Content[1] != schemas.Content(image) {
		t.Errorf("the model got a different input from the one that was sent")
	}
	info, err := c.NATS().Request("$JS.API.STREAM.INFO.OBJ_"+schemas.BucketInputs,
		[]byte(`{"subjects_filter":"$O.*.M.>"}`),
		system.Deadline)
	if err != nil || !strings.Contains(string(info.Data), `"num_subjects":4`) {
		t.Errorf("uploaded: %s, %v", info.Data, err)
	}
	huge := client.Text(strings.Repeat("x", schemas.MaxInputBytes))
	if _, err := c.Session("s1").Prompt(deadline(t), huge); err == nil ||
		!strings.Contains(err.Error(), "the limit is") {
		t.Errorf("an input that is too large: %v", err)
	}
}

// An invalid reference is rejected, and the session continues.
func TestBadReferences(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: scripted.New(scripted.Text("fine"))})
	c := connect(t, s.URL)
	missing := schemas.InputScheme + strings.Repeat("0", 64)
	nc := s.Client.NATS()
	const prefix = "$O." + schemas.BucketInputs
	for subject, data := range map[string]string{
		".C.forged": "forged",
		".M." + base64.URLEncoding.EncodeToString([]byte(strings.Repeat("1", 64))): `{"nuid":"forged","size":6,"chunks":1}`,
		".M." + base64.URLEncoding.EncodeToString([]byte(strings.Repeat("2", 64))): `{"nuid":"forged","size":8388609}`,
	} {
		if _, err := s.Client.JetStream().Publish(deadline(t), prefix+subject, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for ref, want := range map[string]string{
		missing: "not there", "nats://agent_blobs/" + strings.Repeat("0", 64): "dataref is not",
		schemas.InputScheme + "../x": "dataref is not", schemas.InputScheme + strings.Repeat("1", 64): "another digest",
		schemas.InputScheme + strings.Repeat("2", 64): "more than",
	} {
		if got := refused(t, s, nc, "s1", schemas.CommandPrompt, ref, ""); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not contain %q", ref, got, want)
		}
	}
	if got := refused(t, s, nc, "s1", schemas.CommandAbort, missing, ""); !strings.Contains(got, "is for prompt") {
		t.Errorf("an abort by reference: %q", got)
	}
	if got := refused(t, s, nc, "s1", schemas.CommandPrompt, missing, `{"text":"x"}`); !strings.Contains(got, "both") {
		t.Errorf("data and a reference: %q", got)
	}
	if res := result(t, prompt(t, c.Session("s1"), "still there?")); res.Text() != "fine" {
		t.Errorf("got %+v", res)
	}
}

// refused sends a command that refers to its data, and returns the reason of its rejection.
func refused(t *testing.T, s *system.System, nc *nats.Conn, session string, kind schemas.CommandKind, ref, data string,
) string {
	t.Helper()
	m := nats.NewMsg(s.Client.Subjects().Command(session, kind))
	m.Data = []byte(data)
	id := "refused-" + rand.Text()
	for name, value := range map[string]string{schemas.HeaderSpecVersion: schemas.SpecVersion, schemas.HeaderID: id,
		schemas.HeaderSource: "/test", schemas.HeaderType: schemas.CloudEventType(kind), schemas.HeaderDataRef: ref} {
		m.Header.Set(name, schemas.EncodeHeaderValue(value))
	}
	if _, err := nc.RequestMsgWithContext(deadline(t), m); err != nil {
		t.Fatal(err)
	}
	var reason string
	s.Until(t, session, "the refusal of "+id, func(e schemas.Event) bool {
		r, ok := e.Data.(*schemas.CommandRejected)
		if ok && r.CommandID == id {
			reason = r.Reason
		}
		return reason != ""
	})
	return reason
}
