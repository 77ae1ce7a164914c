//go:build unix

package anylanguage_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// The view of the fleet asks every three seconds. It gets the newest dead letters that have 16 MiB together, and not
// more of what answers as a runner than a fleet of runners does.
func TestWhatTheFleetHoldsInJavaScript(t *testing.T) {
	t.Parallel()
	needsNode(t)
	sys := system.StartAlone(t, system.Options{Model: chunked(t)})
	nc, js := sys.Client.NATS(), sys.Client.JetStream()
	text := strings.Repeat("x", 900<<10)
	for i := range 25 {
		letter := nats.NewMsg("agent.dead.AGENT_TOOL.s1")
		letter.Data = fmt.Appendf(nil, "%02d%s", i, text)
		if _, err := js.PublishMsg(bustest.Deadline(t), letter); err != nil {
			t.Fatal(err)
		}
	}
	const ask = "$SRV.INFO.loopbus-runner"
	answers := []func(m *nats.Msg){
		func(m *nats.Msg) {
			for range 1500 {
				_ = m.Respond([]byte("{}"))
			}
		},
		func(m *nats.Msg) {
			for range 20 {
				_ = m.Respond([]byte(text))
			}
		},
		func(m *nats.Msg) { // as long as somebody listens, or the test
			for tick := time.Tick(100 * time.Millisecond); ; <-tick {
				if t.Context().Err() != nil || m.Respond([]byte("{}")) != nil {
					return
				}
			}
		},
	}
	var round atomic.Int32
	if _, err := nc.Subscribe(ask, func(m *nats.Msg) { answers[round.Load()](m) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	var got []string
	node := startScript(t, sys.URL, "crowd")
	node.lines(func(l line) {
		if l.Text != "" {
			got = append(got, l.Text)
			return
		}
		round.Add(1)
		node.goOn()
	})
	tooMany := ask + " has more than 1000 answers, or 16 MiB of them"
	want := slices.Concat([]string{"25 letters, 18 are shown, 24 to 07"}, slices.Repeat([]string{tooMany}, 2),
		[]string{"0 runners"})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
