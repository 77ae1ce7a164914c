package integration_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// paying runs a session whose runs call an unsafe tool, and returns its archive, the tool, and a model that calls it.
func paying(t *testing.T, runs int) (file []byte, pay tools.Tool, paid *atomic.Int32, model *scripted.Model) {
	t.Helper()
	paid = &atomic.Int32{}
	pay = tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "pay", Effect: schemas.EffectUnsafe},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			paid.Add(1)
			return schemas.TextResult("paid"), nil
		},
	}
	script := scripted.Script{Responses: []scripted.Response{
		scripted.Calls("", schemas.ToolCall{Name: "pay"}), scripted.Text("done")}, Loop: true}
	model, err := scripted.NewScripts(scripted.Options{}, script)
	if err != nil {
		t.Fatal(err)
	}
	s := system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{pay}})
	for n := range runs {
		s.Prompted(t, "s1", "pay the bill", n+1)
	}
	if n := paid.Load(); int(n) != runs {
		t.Fatalf("paid %d times in %d runs", n, runs)
	}
	var b bytes.Buffer
	if _, err := archive.Write(t.Context(), s.Store, "s1", &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), pay, paid, model
}

var errDied = errors.New("the process dies here")

// cut is an archive that ends with errDied where it is read for the second time.
type cut struct {
	*bytes.Reader
	left int // of the second time
	read bool
}

func (c *cut) Seek(offset int64, whence int) (int64, error) {
	c.read = true
	return c.Reader.Seek(offset, whence)
}

func (c *cut) Read(p []byte) (int, error) {
	if !c.read {
		return c.Reader.Read(p)
	}
	if c.left == 0 {
		return 0, errDied
	}
	n, err := c.Reader.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func restoreFrom(t *testing.T, s *system.System, file io.ReadSeeker) error {
	t.Helper()
	_, err := archive.Restore(t.Context(), s.Client, s.Store, file)
	return err
}

// A prompt for a session whose restore was interrupted in the middle of a call waits until the restore is complete. The
// call, whose result is in the rest of the archive, is not executed again.
func TestPromptWaitsForAnInterruptedRestore(t *testing.T) {
	t.Parallel()
	file, pay, paid, model := paying(t, 1)
	var log bustest.Log
	s := system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{pay},
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	call := bytes.Index(file, []byte("tool_execution_start"))
	end := call + 1 + bytes.IndexByte(file[call:], '\n')
	if err := restoreFrom(t, s, &cut{Reader: bytes.NewReader(file), left: end}); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	s.Prompt(t, "s1", "say hello")
	bustest.Eventually(t, "the prompt waits", func() bool { return strings.Contains(log.String(), "being restored") })
	if err := restoreFrom(t, s, bytes.NewReader(file)); err != nil {
		t.Fatal(err)
	}
	events := s.Until(t, "s1", "the run ends", system.Ends(2))
	if said := system.Said(events); len(said) != 2 || said[1] != "say hello" {
		t.Errorf("said %q", said)
	}
	s.EmptyInbox(t)
	// The new run pays as its model says.
	if n := paid.Load(); n != 2 {
		t.Errorf("paid %d times in two runs", n)
	}
	s.Verify(t, "s1")
}

// Prompts that arrive while a session is being restored run behind what is restored.
func TestPromptsDuringARestore(t *testing.T) {
	t.Parallel()
	const runs = 15
	file, pay, paid, model := paying(t, runs)
	s := system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{pay}})
	sub, err := s.Client.NATS().SubscribeSync(s.Client.Subjects().LiveEvent("s1"))
	if err != nil {
		t.Fatal(err)
	}
	restored := make(chan error, 1)
	go func() { restored <- restoreFrom(t, s, bytes.NewReader(file)) }()
	if _, err := sub.NextMsgWithContext(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	s.Prompt(t, "s1", "are you there?")
	if err := bustest.Within(t, restored); err != nil {
		t.Error(err)
	}
	s.Until(t, "s1", "the run ends", system.Ends(runs+1))
	s.EmptyInbox(t)
	if n := paid.Load(); n != runs+1 {
		t.Errorf("paid %d times in %d runs", n, runs+1)
	}
}
