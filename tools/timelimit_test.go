package tools_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// The tools that read have a time limit unless somebody sets another; the others have none of their own.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	for name, tool := range allTools(rig.Workspace, t.TempDir(), nil) {
		want := int64(0)
		if tool.Effect == schemas.EffectReadOnly {
			want = 120_000
		}
		if tool.TimeoutMs != want {
			t.Errorf("%s: %d ms, want %d", name, tool.TimeoutMs, want)
		}
	}
}

// A tool that is at work when its time is over ends soon, and says so.
func TestTimeIsOver(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	rig.Put("long", strings.Repeat("x", 70<<10))
	if err := os.Truncate(rig.Path("long"), 1<<40); err != nil { // a line without an end, of which the disk knows nothing
		t.Skipf("the file system has no sparse files: %v", err)
	}
	box := allTools(rig.Workspace, t.TempDir(), nil)
	for name, args := range map[string]string{
		"read": `{"path":"long"}`, "grep": `{"pattern":"no such thing"}`, "find": `{"pattern":"*"}`, "ls": `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := 100 * time.Millisecond
			if name == "find" || name == "ls" { // they are quick here
				limit = time.Nanosecond
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, &tools.TimeLimitError{Limit: 2 * time.Minute})
			defer cancel()
			if limit == time.Nanosecond {
				<-ctx.Done()
			}
			ended := make(chan string, 1)
			go func() {
				result, isError := box[name].Run(ctx, tools.Call{Arguments: []byte(args)}, nil)
				if !isError {
					ended <- "no error"
				}
				ended <- result.Content.JoinText()
			}()
			select {
			case got := <-ended:
				if want := "Tool timed out after 120 seconds"; got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}
