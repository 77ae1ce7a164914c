package worker_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// A worker that starts while other clients have filled the bucket announces its tools once runners have made room.
func TestWorkerAnnouncesOnceTheBucketHasRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	bucket, err := r.js.Stream(t.Context(), "KV_"+schemas.BucketTools)
	if err != nil {
		t.Fatal(err)
	}
	config := bucket.CachedInfo().Config
	room := config.MaxBytes
	config.MaxBytes = 1 << 10
	if _, err := r.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	if _, err := r.js.Publish(t.Context(), "$KV.agent_tools.x.y", []byte(strings.Repeat("x", 900))); err != nil {
		t.Fatal(err)
	}
	var log bustest.Log
	announced := make(chan struct{})
	tool, _, _ := gate()
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, Logger: log.Logger(),
		Announced: func() { close(announced) }})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(w.Run)
	bustest.Eventually(t, "the worker logs that it retries", func() bool {
		return strings.Contains(log.String(), "tools not announced, trying again")
	})
	config.MaxBytes = room
	if _, err := r.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	bustest.Within(t, announced)
}
