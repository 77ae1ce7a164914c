//go:build unix

package storage_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// Damage in the last block after an unclean stop loses the events after the damage and no earlier ones: the log is
// shorter but valid, and its session continues.
func TestADamagedLastBlock(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(raw []byte) []byte{
		"cut in the last message":    func(raw []byte) []byte { return raw[:len(raw)-10] },
		"cut before it":              func(raw []byte) []byte { return raw[:len(raw)-1000] },
		"the last bytes are zeros":   func(raw []byte) []byte { clear(raw[len(raw)-300:]); return raw },
		"a wrong byte in the middle": func(raw []byte) []byte { raw[len(raw)/2] ^= 0xff; return raw },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, cluster.Options{Servers: 1})
			s := system.Start(t, c.URL(), system.Options{Model: &rehearsal.Model{}})
			const runs = 5
			for i := range runs {
				s.Prompted(t, "s1", fmt.Sprint("hello ", i), i+1)
			}
			s.EmptyInbox(t)
			before := s.LogOf(t, "s1")
			c.Kill(0)
			block := blocks(t, c.StoreOf(0), schemas.StreamEvents)[0]
			writeFile(t, block, damage(readFile(t, block)))
			c.Start(0)
			c.WaitReady()
			left := s.Verify(t, "s1").Events
			if left == 0 || left >= uint64(len(before)) {
				t.Errorf("%d events are left of %d", left, len(before))
			}
			if err := publish(t, s, "s1", "again"); err != nil {
				t.Fatal(err)
			}
			s.Until(t, "s1", "the answer", func() func(schemas.Event) bool {
				said := false
				return func(e schemas.Event) bool {
					said = said || len(system.Said([]schemas.Event{e})) > 0 && system.Said([]schemas.Event{e})[0] == "again"
					return said && e.Type() == schemas.EventAgentEnd
				}
			}())
			s.EmptyInbox(t)
			s.Verify(t, "s1")
		})
	}
}

// A wrong byte in an earlier block loses the rest of that block but no later blocks, so that the log has a gap. Verify
// names the first wrong event, and a runner that has to read the log refuses to continue. Other sessions continue.
func TestADamagedBlockInTheMiddle(t *testing.T) {
	t.Parallel()
	var j journal
	c := cluster.Start(t, cluster.Options{Servers: 1})
	s := system.Start(t, c.URL(), system.Options{Model: &rehearsal.Model{}})
	runs := 0
	for len(blocks(t, c.StoreOf(0), schemas.StreamEvents)) < 2 {
		runs++
		s.Prompted(t, "s1", fmt.Sprint(runs, strings.Repeat(" word", 40<<10)), runs)
	}
	s.EmptyInbox(t)
	s.Stop()
	c.Kill(0)
	block := blocks(t, c.StoreOf(0), schemas.StreamEvents)[0]
	raw := readFile(t, block)
	raw[len(raw)/2] ^= 0xff
	writeFile(t, block, raw)
	c.Start(0)
	c.WaitReady()
	report, err := s.Store.Verify(t.Context(), "s1", eventstore.VerifyOptions{Version: loop.FoldVersion})
	if err != nil || report.OK() {
		t.Fatalf("report %+v, %v", report, err)
	}
	if report.Bad.Seq != report.Events+1 || report.Bad.What != "commit" {
		t.Errorf("%d events are good, then %v", report.Events, report.Bad)
	}
	system.StartRunner(t, c.URL(), system.RunnerOptions{
		Model: &rehearsal.Model{}, Inbox: inbox.Options{RunnerID: "second", Logger: j.logger()},
	})
	if err := publish(t, s, "s1", "again"); err != nil {
		t.Fatal(err)
	}
	system.Eventually(t, "the runner says that the log is damaged",
		func() bool { return j.says("session s1", "log damaged") > 0 })
	if err := publish(t, s, "s2", "hello"); err != nil {
		t.Fatal(err)
	}
	s.Until(t, "s2", "the answer of a session that is whole", system.Ends(1))
}
