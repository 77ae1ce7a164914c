package retention_test

import (
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
)

// A clock that jumps ahead makes no session old for a day, also if nobody saw it jump. If it is corrected by then, ages
// are what they would have been without.
func TestAJumpOfTheClockDeletesNothing(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(w *watch){
		"running":           func(*watch) {},
		"restart":           func(w *watch) { w.starts("r1") },
		"another keeper":    func(w *watch) { w.starts("r2") },
		"a server's answer": func(w *watch) { w.answerAt("$KV.agent_deletions.clock") },
		"a stored message": func(w *watch) {
			w.forwards("$KV.agent_deletions.clock", `{"time":"`+w.at.Add(60*day).Format(time.RFC3339)+`"}`)
		},
		"many": func(w *watch) {
			w.flood("$KV.agent_deletions.clock", 200)
			bustest.Eventually(w.t, "the key is full", func() bool {
				return bustest.Messages(w.t, w.conn, "KV_agent_deletions") >= 64
			})
		},
		"what is no time": func(w *watch) { w.publish("$KV.agent_deletions.clock", "x") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watched(t, 20*day)
			w.deletes(0)
			meanwhile(w)
			w.at = w.at.Add(60 * day)
			w.deletes(0)
			meanwhile(w)
			if n := w.passes(23 * time.Hour); n != 0 {
				t.Error("deleted though the clock has jumped within a day")
			}
			if n := strings.Count(w.log.String(), "the clock has jumped ahead"); n != 1 ||
				!strings.Contains(w.log.String(), "jump=1440h0m0s") {
				t.Errorf("%d warnings:\n%s", n, w.log.String())
			}
			meanwhile(w)
			w.at = w.at.Add(-60 * day)
			if n := w.passes(9 * day); n != 0 {
				t.Error("deleted after 29 days and 23 hours")
			}
			meanwhile(w)
			if n := w.passes(4 * time.Hour); n != 1 {
				t.Error("kept after 30 days and 3 hours")
			}
		})
	}
}

// A machine that starts with a clock in the past, and corrects it then, has used sessions long ago by that clock.
func TestABootInThePastDeletesNothing(t *testing.T) {
	t.Parallel()
	w := watched(t, day)
	right := w.at
	w.at = right.Add(-9_000 * day)
	w.starts("r1")
	w.deletes(0)
	w.ended("used", "", 9_000*day, 1)
	w.known(2)
	if n := w.passes(4 * time.Hour); n != 0 {
		t.Errorf("%d deleted before the correction", n)
	}
	w.at = right.Add(5 * time.Hour)
	if w.deletes(0); w.passes(23*time.Hour) != 0 {
		t.Error("deleted within a day of the correction")
	}
}

// After an outage sessions are as old as before it, and get older from there, until a day has passed.
func TestAnOutageMakesSessionsOldOnlyAfterADay(t *testing.T) {
	t.Parallel()
	w := watched(t, 29*day, 29*day+12*time.Hour)
	w.deletes(0)
	w.at = w.at.Add(2 * day)
	w.starts("r1")
	w.deletes(0)
	if n := w.passes(12 * time.Hour); n != 0 {
		t.Errorf("%d deleted by an age of thirty days without the outage", n)
	}
	if n := w.passes(time.Hour); n != 1 {
		t.Errorf("%d deleted by an age of more than thirty days without the outage", n)
	}
	if n := w.passes(10 * time.Hour); n != 0 {
		t.Errorf("%d deleted 23 hours after the outage", n)
	}
	if n := w.passes(2 * time.Hour); n != 1 {
		t.Errorf("%d deleted a day after the outage", n)
	}
}

// No other jump is a reason to believe one, however many there are.
func TestAJumpAmongOthers(t *testing.T) {
	t.Parallel()
	w := watched(t, 10*day)
	down := func(d time.Duration) {
		w.at = w.at.Add(d)
		w.deletes(0)
		w.passes(time.Hour)
	}
	for range 23 {
		down(5 * time.Hour)
	}
	down(60 * day)
	down(5 * time.Hour)
	if w.passes(21*time.Hour) != 0 {
		t.Error("deleted within a day")
	}
}

// The time that a round takes, because it deletes much, is no jump.
func TestALongRoundIsNoJump(t *testing.T) {
	t.Parallel()
	w := watched(t, 29*day)
	w.deletes(0)
	w.k.SetTook(2 * day)
	w.at = w.at.Add(2 * day)
	w.deletes(1)
	if log := w.log.String(); strings.Contains(log, "jumped") {
		t.Errorf("the log has:\n%s", log)
	}
}

// Where the deployment is often down, sessions are deleted late, but they are.
func TestAgesWhereADeploymentIsOftenDown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ up, down, atMost time.Duration }{
		"at night":         {8 * time.Hour, 16 * time.Hour, 33 * day},
		"most of the time": {time.Hour, 5 * time.Hour, 42 * day}, // with more jumps than are told apart
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := watched(t, 0)
			used := w.at
			for n := 0; n == 0; {
				w.at = w.at.Add(c.down)
				w.deletes(0)
				n = w.passes(c.up)
				if age := w.at.Sub(used); n != 0 && age < 30*day || age > c.atMost {
					t.Fatalf("%d deleted after %s", n, age)
				}
			}
		})
	}
}

// A rule of less than a day waits for no longer than its age, as after the start of a deployment. That is certain: the
// session was not used while keepers saw that time pass.
func TestAShortRuleWaitsForItsAge(t *testing.T) {
	t.Parallel()
	w := watched(t)
	w.ended("s1", "short", time.Minute, 1)
	w.known(1)
	kv, err := w.conn.JetStream().KeyValue(bustest.Deadline(t), "agent_deletions")
	w.must(err)
	w.must(kv.Purge(bustest.Deadline(t), "clock"))
	w.at = w.at.Add(60 * day)
	w.deletes(0)
	if n := w.passes(59 * time.Minute); n != 0 {
		t.Error("deleted before an hour has passed")
	}
	if n := w.passes(time.Minute); n != 1 {
		t.Error("kept after an hour")
	}
	if strings.Contains(w.log.String(), "jumped") {
		t.Errorf("a first start is taken for a jump:\n%s", w.log.String())
	}
}

// While the time of the last round cannot be stored nothing is deleted by age, but by size.
func TestNoMarkNoDeletionByAge(t *testing.T) {
	t.Parallel()
	w := watched(t, 40*day)
	w.ended("big", "big", day, 10)
	w.known(2)
	accepts := func(subject string) {
		t.Helper()
		stream, err := w.conn.JetStream().Stream(bustest.Deadline(t), "KV_agent_deletions")
		w.must(err)
		config := stream.CachedInfo().Config
		config.Subjects = []string{subject}
		_, err = w.conn.JetStream().UpdateStream(bustest.Deadline(t), config)
		w.must(err)
	}
	accepts("$KV.agent_deletions.session.>")
	n, err := w.k.Round(bustest.Deadline(t))
	if n != 1 || err == nil || !strings.Contains(err.Error(), "no session is deleted by age") {
		t.Errorf("%d deleted, %v", n, err)
	}
	accepts("$KV.agent_deletions.>")
	w.deletes(1)
}
