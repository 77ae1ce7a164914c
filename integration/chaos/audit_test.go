//go:build unix

package chaos_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// restBound is how long sessions may take to come to rest once all faults are over: the loss of a toolworker is noticed
// after 30 s, and a delivery that failed often is retried after up to 30 s.
const restBound = 4 * time.Minute

// leftTimeout bounds one check of all streams.
const leftTimeout = 10 * time.Second

// awaitRest waits until no command and no call is left in its stream, and the replicas agree. If that takes longer than
// restBound, it returns a description of what is left.
func (w *world) awaitRest(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(ctx, restBound)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for quiet := 0; quiet < 3; {
		now := w.left(ctx)
		if ctx.Err() != nil {
			return left // of the newest check that was completed in time
		}
		left = now
		if quiet++; len(left) > 0 {
			quiet = 0
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return left
		}
	}
	return nil
}

// left describes the messages that are left in the streams, replicas that lag, and streams that do not answer because
// they have no leader.
func (w *world) left(ctx context.Context) (left []string) {
	ctx, cancel := context.WithTimeout(ctx, leftTimeout)
	defer cancel()
	for _, name := range []string{schemas.StreamCommands, schemas.StreamTools, schemas.StreamEvents} {
		stream, err := w.conn.JetStream().Stream(ctx, name)
		var info *jetstream.StreamInfo
		if err == nil {
			info, err = stream.Info(ctx, jetstream.WithSubjectFilter(">"))
		}
		if err != nil {
			left = append(left, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		if info.Cluster != nil {
			for _, r := range info.Cluster.Replicas {
				if !r.Current || r.Lag > 0 {
					left = append(left, fmt.Sprintf("%s: replica %s lags by %d", name, r.Name, r.Lag))
				}
			}
		}
		if name == schemas.StreamEvents {
			continue
		}
		for subject, n := range info.State.Subjects {
			left = append(left, fmt.Sprintf("%s: %d of %s", name, n, subject))
		}
	}
	return left
}

// readLogs reads and verifies the log of every session. A log that cannot be read or verified is a violation.
func (w *world) readLogs(ctx context.Context) (map[string][]schemas.Event, []history.Violation) {
	w.t.Helper()
	logs := map[string][]schemas.Event{}
	var bad []history.Violation
	for info, err := range w.store.Sessions(ctx) {
		w.must(err)
		report, err := w.store.Verify(ctx, info.Session, eventstore.VerifyOptions{Version: loop.FoldVersion, Refold: refold})
		w.must(err)
		if !report.OK() {
			bad = append(bad, history.Violation{Class: history.Shape, Session: info.Session, Seq: report.Bad.Seq,
				What: "verify: " + report.Bad.Error()})
		}
		for e, err := range w.store.Read(ctx, info.Session, 1) {
			if err != nil {
				bad = append(bad, history.Violation{Class: history.Shape, Session: info.Session, What: "read: " + err.Error()})
				break
			}
			logs[info.Session] = append(logs[info.Session], e)
		}
	}
	return logs, bad
}

func refold(events iter.Seq[schemas.Event]) ([]byte, error) {
	state := new(loop.State)
	for e := range events {
		if err := state.Apply(e); err != nil {
			return nil, err
		}
	}
	return schemas.Marshal(state)
}

// executions returns how many lines the tools have written, by key.
func (w *world) executions() map[string]int {
	w.t.Helper()
	counts := map[string]int{}
	for _, name := range []string{w.countFile(), filepath.Join(w.work, program.CountFile)} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		w.must(err)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			counts[lines.Text()]++
		}
		f.Close()
	}
	return counts
}

// counted returns the key of a call's executions: a bash command writes the key that its prompt contains. It returns
// false for calls whose executions are not counted.
func counted(session string, start *schemas.ToolExecutionStart, key schemas.CallKey) (history.Call, bool) {
	switch start.ToolName {
	case toolIdempotent:
		return history.Call{Key: session + "/" + string(key), Effect: schemas.EffectIdempotent}, true
	case schemas.ToolAgent: // the runner executes it
		return history.Call{}, false
	case toolReadOnly:
		return history.Call{Key: session + "/" + string(key), Effect: schemas.EffectReadOnly}, true
	}
	var args struct{ Command string }
	if json.Unmarshal(start.Args, &args) != nil {
		return history.Call{}, false
	}
	rest, ok := strings.CutPrefix(args.Command, program.LinePrefix)
	written, _, _ := strings.Cut(rest, " ")
	return history.Call{Key: written, Effect: schemas.EffectUnsafe}, ok
}

// audit reads everything that was recorded, and returns it with all violations.
func (w *world) audit(ctx context.Context, gone *deletions) (history.History, []history.Violation) {
	w.t.Helper()
	logs, bad := w.readLogs(ctx)
	h := history.History{Logs: logs, Executions: w.executions(), Counted: counted,
		Deleted: gone.ended(), Forgotten: gone.forgotten}
	for _, c := range w.clients {
		h.Commands = append(h.Commands, c.seen()...)
	}
	h.Commands = append(h.Commands, history.BetweenSessions(logs, h.Deleted)...)
	bad = append(bad, w.deadLetters(ctx)...)
	bad = append(bad, w.crashes()...)
	return h, append(bad, history.Check(h)...)
}

// deadLetters returns a violation for each subject that has dead letters: no message may be given up.
func (w *world) deadLetters(ctx context.Context) (bad []history.Violation) {
	stream, err := w.conn.JetStream().Stream(ctx, schemas.StreamDead)
	w.must(err)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	w.must(err)
	for subject, n := range info.State.Subjects {
		bad = append(bad, history.Violation{Class: history.Lost, What: fmt.Sprintf("%d dead letters at %s", n, subject)})
	}
	return bad
}

// crashes returns the lines about panics and data races that processes have printed. No fault may cause one.
func (w *world) crashes() (bad []history.Violation) {
	files, err := filepath.Glob(filepath.Join(w.logs(), "*.log"))
	w.must(err)
	for _, file := range files {
		f, err := os.Open(file)
		w.must(err)
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			for _, sign := range []string{"panic:", "fatal error:", "WARNING: DATA RACE", "panic contained", "[PNC]"} {
				if strings.Contains(lines.Text(), sign) {
					bad = append(bad, history.Violation{Class: history.Shape, What: filepath.Base(file) + ": " + lines.Text()})
				}
			}
		}
		f.Close()
	}
	return bad
}

// writeLog writes the log of a session, one event per line, to the directory with the output of processes.
func (w *world) writeLog(session string, log []schemas.Event) {
	w.t.Helper()
	f, err := os.Create(filepath.Join(w.logs(), session+".jsonl"))
	w.must(err)
	defer f.Close()
	for _, e := range log {
		line, err := json.Marshal(map[string]any{"seq": e.Seq, "type": e.Type(), "time": e.Time, "source": e.Source,
			"run":  e.RunID,
			"turn": e.TurnID, "cause": e.CausationID, "data": e.Data})
		w.must(err)
		fmt.Fprintln(f, string(line))
	}
}
