package extension_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/extension"
)

type sent struct {
	Session, ID string
	Data        schemas.CommandData
}

func run(t *testing.T, name string, call tools.Call, failure error) (text string, isError bool, all []sent) {
	t.Helper()
	set, err := extension.Tools(func(_ context.Context, session, id string, data schemas.CommandData) error {
		all = append(all, sent{session, id, data})
		return failure
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range set {
		if tool.Name == name {
			result, isError := tool.Run(t.Context(), call, nil)
			return result.Content.JoinText(), isError, all
		}
	}
	t.Fatalf("no tool %s", name)
	return "", false, nil
}

func callOf(args string) tools.Call {
	return tools.Call{Session: "s1", Key: "c17", IdempotencyKey: "s1/c17", Arguments: []byte(args)}
}

func TestInterruptAborts(t *testing.T) {
	text, isError, got := run(t, schemas.ToolAgentInterrupt, callOf(`{}`), nil)
	want := []sent{{"s1", "interrupt/c17", &schemas.Abort{Reason: "agent-requested"}}}
	if d := cmp.Diff(want, got); d != "" || isError || text != "Interrupt request sent" {
		t.Errorf("%q, error %t, sent (-want +got):\n%s", text, isError, d)
	}
}

func TestBranchCopiesUpToTheCall(t *testing.T) {
	text, isError, got := run(t, schemas.ToolSessionBranch, callOf(`{}`), nil)
	want := []sent{{"s1-c17", "branch/s1/c17", &schemas.Branch{Session: "s1", Seq: 17}}}
	if d := cmp.Diff(want, got); d != "" || isError || text != "Branched into session s1-c17" {
		t.Errorf("%q, error %t, sent (-want +got):\n%s", text, isError, d)
	}
	if _, _, got = run(t, schemas.ToolSessionBranch, callOf(`{"session":"fork"}`), nil); len(got) != 1 ||
		got[0].Session != "fork" {
		t.Errorf("a name of its own: %+v", got)
	}
	long := callOf(`{}`)
	long.Session = strings.Repeat("x", 64)
	if _, _, got = run(t, schemas.ToolSessionBranch, long, nil); len(got) != 1 || len(got[0].Session) != 64 ||
		!strings.HasSuffix(got[0].Session, "x-c17") {
		t.Errorf("a long name: %+v", got)
	}
}

func TestWhatCannotBeSentIsAnError(t *testing.T) {
	for _, name := range schemas.ExtensionTools() {
		if text, isError, _ := run(t, name, callOf(`{}`), errors.New("the inbox is full")); !isError ||
			text != "the inbox is full" {
			t.Errorf("%s: %q, error %t", name, text, isError)
		}
	}
	if text, isError, got := run(t, schemas.ToolSessionBranch, callOf(`{"session":"a.b"}`), nil); !isError ||
		len(got) != 0 {
		t.Errorf("an illegal name: %q, error %t, sent %+v", text, isError, got)
	}
}
