package registry_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

// answerAt directs answers of the server to a subject, as a client can that may publish any message: an
// acknowledgement, the state of a stream, a stored message, a stored commit without its headers, and the status that
// there is none. It returns once they are stored.
func answerAt(t *testing.T, c *bus.Conn, subject string) {
	t.Helper()
	stored := "agent.evt.s1"
	_, err := c.JetStream().Publish(bustest.Deadline(t), stored, []byte(`{"description":"a stored message"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.JetStream().Publish(bustest.Deadline(t), "agent.evt.commit", []byte(`[{"specversion":"1.0"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []struct{ subject, request string }{{"agent.cmd.s1.prompt", ""},
		{"$JS.API.STREAM.INFO.AGENT_EVT", ""}, {"$JS.API.DIRECT.GET.AGENT_EVT." + stored, ""},
		{"$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.commit", `{"no_hdr":true}`},
		{"$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none", ""}} {
		before := lastSeq(t, c, subject)
		if err := c.NATS().PublishRequest(asked.subject, subject, []byte(asked.request)); err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, "the answer to "+asked.subject+" is stored", func() bool {
			return lastSeq(t, c, subject) > before
		})
	}
}

// lastSeq returns the sequence of the newest message in the bucket that a subject belongs to.
func lastSeq(t *testing.T, c *bus.Conn, subject string) uint64 {
	t.Helper()
	stream, err := c.JetStream().Stream(bustest.Deadline(t), "KV_"+strings.Split(subject, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.LastSeq
}

// An answer of a server at the key of a profile must not count as an empty profile, which would have neither approvals
// nor limits: the stored profile stays valid, also for a reader that starts later. A name without a profile stays
// unknown.
func TestServerAnswerIsNotAProfile(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	kv := profileBucket(t, c)
	for _, v := range []string{`{}`, strictProfile} {
		if _, err := kv.Put(bustest.Deadline(t), "coder", []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	profiles := newProfiles(t, c)
	if _, err := profiles.List(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	answerAt(t, c, "$KV.agent_profiles.coder")
	answerAt(t, c, "$KV.agent_profiles.writer")
	if _, err := kv.Put(bustest.Deadline(t), "behind", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the last profile is known", func() bool {
		_, err := profiles.Profile(bustest.Deadline(t), "behind")
		return err == nil
	})
	readers := map[string]*registry.Profiles{"earlier reader": profiles, "later reader": newProfiles(t, c)}
	for reader, profiles := range readers {
		if !strict(t, profiles) {
			t.Errorf("%s: it has a different profile", reader)
		}
		_, err := profiles.Profile(bustest.Deadline(t), "writer")
		if !errors.Is(err, errNone) || !strings.Contains(err.Error(), "answer of a NATS server") {
			t.Errorf("%s: unknown name: %v", reader, err)
		}
	}
}

// Answers of a server at the key of an announcement do not remove the announcement.
func TestServerAnswerDoesNotRemoveTool(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "bash", Description: "x", Parameters: []byte(`{}`)})
	box := registry.NewToolbox(c, nil)
	t.Cleanup(box.Close)
	if err := box.Wait(bustest.Deadline(t), "bash"); err != nil {
		t.Fatal(err)
	}
	answerAt(t, c, "$KV.agent_tools.bash.w1")
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "ls", Description: "x", Parameters: []byte(`{}`)})
	if err := box.Wait(bustest.Deadline(t), "bash", "ls"); err != nil {
		t.Error(err)
	}
}
