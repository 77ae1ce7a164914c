package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// noise generates random payloads: bytes, text, and JSON that resembles a command. It logs its seed.
type noise struct{ *rand.Rand }

func newNoise(t *testing.T) noise {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return noise{rand.New(rand.NewPCG(seed, 0))}
}

var scraps = []string{`{`, `}`, `"`, `:`, `,`, `[`, `null`, `1e9`, `"id"`, `"text"`, `"model"`, `"call"`,
	`"specversion"`, `"1.0"`, `\u0000`, " "}

func (n noise) payload() []byte {
	out := make([]byte, 0, 64)
	form := n.IntN(3)
	for range 1 + n.IntN(40) {
		switch form {
		case 0:
			out = append(out, byte(n.IntN(256)))
		case 1:
			out = utf8.AppendRune(out, rune(n.IntN(0x2ff)))
		default:
			out = append(out, scraps[n.IntN(len(scraps))]...)
		}
	}
	return out
}

// publish sends many messages without waiting for each.
func publish(t *testing.T, s *system.System, subject string, payload []byte) {
	t.Helper()
	if _, err := s.Client.JetStream().PublishAsync(subject, payload,
		jetstream.WithStallWait(system.Deadline)); err != nil {
		t.Fatal(err)
	}
}

// settled waits until all messages are stored and every command is acknowledged.
func settled(t *testing.T, s *system.System) {
	t.Helper()
	select {
	case <-s.Client.JetStream().PublishAsyncComplete():
	case <-time.After(system.Deadline):
		t.Fatal("some messages were not stored")
	}
	s.EmptyInbox(t)
}

// strictKinds accept no plain text and require a member, so that no noise is a valid command of these kinds. Their
// rejections are recorded in the session's log.
var strictKinds = []string{"set_model", "set_thinking_level", "set_system_prompt", "set_tools", "cancel_input",
	"timer", "noise"}

func TestRandomBytesAreRefused(t *testing.T) {
	t.Parallel()
	const total, sessions = 4_000, 16
	s := system.StartAlone(t, system.Options{Model: &rehearsal.Model{}})
	n := newNoise(t)
	for i := range total {
		kind, payload := strictKinds[n.IntN(len(strictKinds))], n.payload()
		for len(bytes.TrimSpace(payload)) == 0 { // of an unknown kind it may be a server's answer, which no log has
			payload = n.payload()
		}
		publish(t, s, fmt.Sprintf("agent.cmd.noise%d.%s", i%sessions, kind), payload)
	}
	settled(t, s)
	for i := range sessions {
		session := fmt.Sprintf("noise%d", i)
		refused(t, s, session, total/sessions)
		for _, r := range system.DataOf[*schemas.CommandRejected](s.LogOf(t, session)) {
			if r.Code == "" || r.Reason == "" || r.StreamSeq == 0 {
				t.Errorf("session %s: rejected with %+v", session, r)
			}
		}
	}
	if got := s.Messages(t, schemas.StreamTools, ""); got != 0 {
		t.Errorf("%d tool calls were made", got)
	}
	healthy(t, s, "noise0")
}

// For kinds that accept plain text, valid text becomes a user message, byte for byte and in order, and all other
// payloads are rejected.
func TestRandomTextIsSaidOrRefused(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: &rehearsal.Model{}})
	n := newNoise(t)
	var want []string
	refused := 0
	for range 300 {
		payload := n.payload()
		text := schemas.IsPlainText(payload) && utf8.Valid(payload) && len(bytes.TrimSpace(payload)) > 0
		if !text && json.Valid(payload) {
			continue // may be a command
		}
		if text {
			want = append(want, string(payload))
		} else {
			refused++
		}
		publish(t, s, "agent.cmd.s1.prompt", payload)
	}
	settled(t, s)
	log := s.Until(t, "s1", "the end of the last run", system.Ends(len(want)))
	if d := cmp.Diff(want, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	if got := len(system.DataOf[*schemas.CommandRejected](s.LogOf(t, "s1"))); got != refused {
		t.Errorf("%d rejected, want %d", got, refused)
	}
	s.Verify(t, "s1")
}
