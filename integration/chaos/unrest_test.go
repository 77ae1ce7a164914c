//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/schemas"
)

// tailLength is how many bytes of the end of a process's output are shown.
const tailLength = 3000

// explain logs what tells why messages are left: whether their consumers deliver them, and what the runners said last.
// With -artifacts the whole output of all processes is kept.
func (w *world) explain(ctx context.Context) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, leftTimeout)
	defer cancel()
	for _, name := range []string{schemas.StreamCommands, schemas.StreamTools} {
		stream, err := w.conn.JetStream().Stream(ctx, name)
		if err != nil {
			w.t.Logf("%s: %v", name, err)
			continue
		}
		consumers := stream.ListConsumers(ctx)
		for info := range consumers.Info() {
			w.t.Log(described(info))
		}
		if err := consumers.Err(); err != nil {
			w.t.Logf("consumers of %s: %v", name, err)
		}
	}
	w.keepLeft(ctx)
	logs, err := filepath.Glob(filepath.Join(w.logs(), "r[0-9]*.log"))
	w.must(err)
	for _, path := range logs {
		output, err := os.ReadFile(path)
		w.must(err)
		w.t.Logf("%s ends with:\n%s", filepath.Base(path), output[max(0, len(output)-tailLength):])
	}
	for _, s := range w.slots[program.Runner] { // their output gets the stacks of all goroutines
		if err := s.current(true).Quit(); err != nil {
			w.t.Log(err)
		}
	}
}

// keepLeft writes the logs of the sessions that have commands left to the artifacts.
func (w *world) keepLeft(ctx context.Context) {
	w.t.Helper()
	stream, err := w.conn.JetStream().Stream(ctx, schemas.StreamCommands)
	w.must(err)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(">"))
	w.must(err)
	for subject := range info.State.Subjects {
		session, _, err := w.conn.Subjects().ParseCommand(subject)
		w.must(err)
		var log []byte
		for e, err := range w.store.Read(ctx, session, 1) {
			if err != nil {
				w.t.Logf("log of session %s: %v", session, err)
				break
			}
			line, err := json.Marshal(e)
			w.must(err)
			log = append(append(log, line...), '\n')
		}
		w.must(os.WriteFile(filepath.Join(w.logs(), "left-"+session+".jsonl"), log, 0o600))
	}
}

// described describes a consumer in a line, with its partitions as numbers.
func described(info *jetstream.ConsumerInfo) string {
	filters := append(slices.Clone(info.Config.FilterSubjects), info.Config.FilterSubject)
	var partitions []string
	for _, f := range filters {
		if tokens := strings.Split(f, "."); len(tokens) > 2 {
			partitions = append(partitions, tokens[2])
		}
	}
	leader := ""
	if info.Cluster != nil {
		leader = info.Cluster.Leader
	}
	return fmt.Sprintf("consumer %s of %s, leader %q, of %s: %d to be delivered, %d not acknowledged, %d redelivered, "+
		"%d pulls wait, delivered to %d, acknowledged to %d", info.Name, info.Stream, leader,
		strings.Join(partitions, " "), info.NumPending, info.NumAckPending, info.NumRedelivered, info.NumWaiting,
		info.Delivered.Stream, info.AckFloor.Stream)
}
