package workspace_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools/workspace"
)

// enqueue starts a call of Exclusive that tells its name when it runs, and returns when it has its place.
func enqueue(t *testing.T, ctx context.Context, w *workspace.Workspace, path, name string,
	order chan<- string) <-chan error {
	t.Helper()
	before, ended := w.Queued(), make(chan error, 1)
	go func() {
		ended <- w.Exclusive(ctx, path, func() error { order <- name; return nil })
	}()
	for deadline := time.Now().Add(time.Minute); w.Queued() == before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%s is not in the queue", name)
		}
	}
	return ended
}

// Calls for one file run one after the other in the order in which they came, by whatever name they call it.
func TestExclusiveInOrder(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	order := make(chan string, 10)
	var ended []<-chan error
	err := w.Exclusive(t.Context(), base+"/root/d/b", func() error {
		for _, path := range []string{"d/b", "rel", "abs/b", "chain", "d/./b"} {
			ended = append(ended, enqueue(t, t.Context(), w, w.Resolve(path), path, order))
		}
		other := enqueue(t, t.Context(), w, w.Resolve("a"), "other file", order)
		return <-other // it does not wait
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ended {
		if err := <-e; err != nil {
			t.Error(err)
		}
	}
	close(order)
	var got []string
	for name := range order {
		got = append(got, name)
	}
	if d := cmp.Diff([]string{"other file", "d/b", "rel", "abs/b", "chain", "d/./b"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A call that gives up while it waits lets the next one through, and has the cause as its error.
func TestExclusiveGivenUp(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	order := make(chan string, 10)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	var after <-chan error
	err := w.Exclusive(t.Context(), base+"/root/new/file", func() error {
		waiting := enqueue(t, ctx, w, base+"/root/new/file", "given up", order)
		after = enqueue(t, t.Context(), w, base+"/root/new/file", "after", order)
		cancel(cause)
		if err := <-waiting; !errors.Is(err, cause) {
			t.Errorf("got %v", err)
		}
		select {
		case name := <-order:
			t.Errorf("%s ran at the same time", name)
		default:
		}
		return nil
	})
	if err := errors.Join(err, <-after); err != nil || <-order != "after" {
		t.Error(err)
	}
}

func TestExclusiveReturnsTheError(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	want := errors.New("no")
	if err := w.Exclusive(t.Context(), base+"/root/a", func() error { return want }); !errors.Is(err, want) {
		t.Errorf("got %v", err)
	}
	if err := w.Exclusive(t.Context(), base+"/root/a", func() error { return nil }); err != nil {
		t.Errorf("after an error: %v", err)
	}
}
