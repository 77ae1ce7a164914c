package inbox_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox/admission"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// An input was uploaded, and a replica that is behind does not have it.
func TestAnInputIsReadThoughAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	const bucket = "OBJ_" + schemas.BucketInputs
	c, _ := bustest.Behind(t, bucket)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	promptBy(t, c, "s1", upload(t, c, strings.Repeat("x", 300<<10)))
	bustest.Eventually(t, "it is settled", func() bool { return bustest.Queued(t, c) == 0 })
	if r := h.rejections(); len(r) != 0 || h.total() != 1 {
		t.Errorf("%d delivered, rejected %+v", h.total(), r)
	}
}

// Inputs by reference are loaded in turn: many at once would take too much memory, and more of the connection than a
// server lets it have. Nobody else waits for them.
func TestInputsAreLoadedInTurn(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	bustest.Setup(t, c, streams.Options{})
	loaded, enter, end := make(chan string), make(chan struct{}), make(chan struct{})
	h := fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, entered func()) error {
		loaded <- cmd.Session
		if cmd.Session == "small" {
			return nil
		}
		<-enter
		entered()
		loaded <- cmd.Session
		<-end
		return nil
	}}
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	ref := upload(t, c, strings.Repeat("x", 300<<10))

	others, err := in.TakeInputs(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	promptBy(t, c, "large", ref)
	bustest.Send(t, c, "small", "x")
	want := func(session string) {
		t.Helper()
		if got := bustest.Within(t, loaded); got != session {
			t.Fatalf("session %s came, want %s", got, session)
		}
	}
	want("small")
	others()
	want("large")
	if in.InputsIdle() {
		t.Error("an input that is not stored takes no room")
	}
	enter <- struct{}{}
	want("large") // has entered
	if !in.InputsIdle() {
		t.Error("an input that is stored takes room")
	}
	end <- struct{}{}

	promptBy(t, c, "s3", "nats://agent_inputs/"+strings.Repeat("0", 64))
	promptBy(t, c, "s4", ref[:len(ref)-1]+"-")
	bustest.Eventually(t, "all are settled", func() bool { return bustest.Queued(t, c) == 0 })
	if r := h.rejections(); len(r) != 2 || !in.InputsIdle() {
		t.Errorf("rejected %+v, and inputs take room", r)
	}
}

// Inputs of sessions that wait for memory take no turn: others would wait as long as the models of strangers are slow.
// And a session that has its memory, which others wait for, does not keep it while its input waits for its turn.
func TestInputsOfSessionsThatWaitTakeNoTurn(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	bustest.Setup(t, c, streams.Options{})
	waits, free, delivered := make(chan string, 100), make(chan struct{}), make(chan string, 10)
	h := fakeHandler{
		hold: func(session string) {
			if waits <- session; session == "waits" {
				<-free
			}
		},
		deliver: func(_ context.Context, cmd schemas.Command, _ func()) error {
			delivered <- cmd.Session
			return nil
		},
	}
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	ref := upload(t, c, strings.Repeat("x", 300<<10))
	promptBy(t, c, "waits", ref)
	if session := bustest.Within(t, waits); session != "waits" || !in.InputsIdle() {
		t.Fatalf("session %s waits, and inputs are idle: %v", session, in.InputsIdle())
	}
	others, err := in.TakeInputs(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	promptBy(t, c, "ready", ref)
	for range 2 { // it gives its memory up, and comes again
		if session := bustest.Within(t, waits); session != "ready" {
			t.Fatalf("session %s", session)
		}
	}
	others()
	if session := bustest.Within(t, delivered); session != "ready" {
		t.Errorf("session %s was delivered", session)
	}
	close(free)
	if session := bustest.Within(t, delivered); session != "waits" {
		t.Errorf("session %s was delivered", session)
	}
}

// More inputs wait for their turn than sessions may start at once. Others start all the same, and not one in 100 ms as
// behind a queue that stands still.
func TestInputsThatWaitKeepNobodyFromStarting(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	bustest.Setup(t, c, streams.Options{})
	var h fakeHandler
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	others, err := in.TakeInputs(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	const waiting, small = admission.MaxStarting + 10, 100
	ref := upload(t, c, strings.Repeat("x", 300<<10))
	for n := range waiting {
		promptBy(t, c, fmt.Sprintf("w%d", n), ref)
	}
	begun := time.Now()
	for n := range small {
		bustest.Send(t, c, fmt.Sprintf("s%d", n), "x")
	}
	bustest.Eventually(t, "all others are settled", func() bool { return h.reached() == small })
	if took := time.Since(begun); took > small*admission.Patience*2/3 {
		t.Errorf("it took %s", took)
	}
	others()
	bustest.Eventually(t, "those that have waited are settled", func() bool { return h.reached() == small+waiting })
}

// upload stores an input and returns its reference.
func upload(t *testing.T, c *bus.Conn, text string) (ref string) {
	t.Helper()
	sum := sha256.Sum256([]byte(text))
	name := hex.EncodeToString(sum[:])
	info := jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name}, NUID: "n1", Size: uint64(len(text))}
	for piece := text; piece != ""; info.Chunks++ {
		n := min(len(piece), 128<<10)
		publish(t, c.JetStream(), &nats.Msg{Subject: "$O.agent_inputs.C.n1", Data: []byte(piece[:n])})
		piece = piece[n:]
	}
	entry, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c.JetStream(), &nats.Msg{Data: entry,
		Subject: "$O.agent_inputs.M." + base64.URLEncoding.EncodeToString([]byte(name))})
	return schemas.InputScheme + name
}

// promptBy prompts a session by a reference.
func promptBy(t *testing.T, c *bus.Conn, session, ref string) {
	t.Helper()
	publish(t, c.JetStream(), &nats.Msg{Subject: "agent.cmd." + session + ".prompt", Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"p1"}, "ce-source": {"/test"}, "ce-type": {"dev.loopbus.prompt.v1"},
		"content-type": {"text/plain"}, schemas.HeaderDataRef: {ref}}})
}

func publish(t *testing.T, js jetstream.JetStream, m *nats.Msg) {
	t.Helper()
	if _, err := js.PublishMsg(bustest.Deadline(t), m); err != nil {
		t.Fatal(err)
	}
}
