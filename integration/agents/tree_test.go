package agents_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// said returns the texts of messages in a model's context.
func said(messages schemas.Messages) (texts []string) {
	for _, m := range messages {
		switch m := m.(type) {
		case *schemas.UserMessage:
			texts = append(texts, m.Content.JoinText())
		case *schemas.AssistantMessage:
			texts = append(texts, m.Content.JoinText())
		}
	}
	return texts
}

// newest returns the id of the newest message of a role.
func newest(log []schemas.Event, role schemas.Role) (id string) {
	for _, end := range system.DataOf[*schemas.MessageEnd](log) {
		if end.Message.MessageRole() == role {
			id = end.MessageID
		}
	}
	return id
}

// A user navigates to an earlier message and sends it again, and then navigates back to the abandoned branch. Labels,
// a name and entries of an application are part of the session, and a session forked from an entry starts with the
// path to it.
func TestASessionIsATree(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c, err := client.New(r.conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, s := t.Context(), c.Session("s1")
	first := newest(r.Prompted(t, "s1", "one", 1), schemas.RoleAssistant)
	log := r.Prompted(t, "s1", "two", 2)
	second, answered := newest(log, schemas.RoleUser), newest(log, schemas.RoleAssistant)

	do(
		t,
		s.CustomMessage(ctx, schemas.AddMessage{CustomType: "note", Content: schemas.Contents{schemas.Text{Text: "beware"}}}),
	)
	do(t, s.Custom(ctx, "todo", []byte(`{"open":1}`)))
	if text, err := s.Navigate(ctx, second, client.NavigateOptions{Label: "the first try"}); text != "two" || err != nil {
		t.Fatalf("navigate to a user's message: %q, %v", text, err)
	}
	r.Prompted(t, "s1", "three", 3)
	if got := strings.Join(said(r.asked.Requests("s1")[2].Messages), "|"); strings.Contains(got, "two") ||
		strings.Contains(got, "beware") ||
		!strings.HasPrefix(got, "one|") ||
		!strings.HasSuffix(got, "|three") {
		t.Errorf("on the new branch the context is %s", got)
	}
	if _, err := s.Navigate(ctx, answered, client.NavigateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Prompted(t, "s1", "four", 4)
	got := strings.Join(said(r.asked.Requests("s1")[3].Messages), "|")
	if strings.Contains(got, "three") || !strings.Contains(got, "|two|") || !strings.HasSuffix(got, "|four") {
		t.Errorf("back on the old branch the context is %s", got)
	}

	do(t, s.Name(ctx, "a tree"))
	var rejected *client.RejectedError
	if _, err := s.Navigate(ctx, "m9999", client.NavigateOptions{}); !errors.As(err, &rejected) ||
		rejected.Code != schemas.RejectNotFound {
		t.Errorf("navigate to an unknown entry: %v", err)
	}
	if err := s.Label(ctx, "e1", "x"); !errors.As(err, &rejected) || rejected.Code != schemas.RejectNotFound {
		t.Errorf("label of an unknown entry: %v", err)
	}

	fork := c.Session("fork")
	if text, err := fork.Fork(ctx, "s1", second, schemas.BranchBefore); text != "two" || err != nil {
		t.Fatalf("fork before a user's message: %q, %v", text, err)
	}
	copied := system.DataOf[*schemas.SessionBranched](r.Prompted(t, "fork", "five", 1))
	if len(copied) != 1 || len(copied[0].Messages) != 2 || copied[0].EntryID != second {
		t.Errorf("forked %+v", copied)
	}
	if _, err := c.Session("f2").Fork(ctx, "s1", first, schemas.BranchBefore); !errors.As(err, &rejected) ||
		rejected.Code != schemas.RejectState || rejected.Reason != "Invalid entry ID for forking" {
		t.Errorf("fork before a reply: %v", err)
	}
	if _, err := c.Session("f3").Fork(ctx, "s1", "m9999", ""); !errors.As(err, &rejected) ||
		rejected.Code != schemas.RejectNotFound {
		t.Errorf("fork at an unknown entry: %v", err)
	}
	if _, err := c.Session("f4").Fork(ctx, "s1", first, ""); err != nil {
		t.Error(err)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
	r.Verify(t, "fork")
}

func do(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Navigation is rejected during a run.
func TestNobodyNavigatesDuringARun(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c, err := client.New(r.conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Session("s1")
	r.profile("careful", schemas.Profile{Approval: &schemas.ApprovalPolicy{Tools: []string{"note"}}})
	r.follow("s1", "careful")
	r.Prompt(t, "s1", "call note {}")
	log := r.Until(t, "s1", "the request", requested)
	for _, data := range []schemas.CommandData{
		&schemas.Navigate{TargetID: newest(log, schemas.RoleUser)},
		&schemas.AddMessage{CustomType: "x", Content: schemas.Contents{}},
	} {
		var rejected *client.RejectedError
		if err := s.Do(t.Context(), data); !errors.As(err, &rejected) || rejected.Code != schemas.RejectBusy {
			t.Errorf("%s during a run: %v", data.CommandKind(), err)
		}
	}
	do(t, s.Label(t.Context(), newest(log, schemas.RoleUser), "asked here"))
	do(t, s.Approve(t.Context(), *system.DataOf[*schemas.ApprovalRequested](log)[0], ""))
	r.Until(t, "s1", "the end of the run", system.Ends(1))
	if _, err := s.Navigate(t.Context(), newest(log, schemas.RoleUser), client.NavigateOptions{}); err != nil {
		t.Errorf("after the run: %v", err)
	}
}
