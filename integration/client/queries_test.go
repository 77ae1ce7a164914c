package client_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// answer makes a system's runner answer queries.
func answer(t *testing.T, sys *system.System) {
	t.Helper()
	system.Serve(t, func(ctx context.Context) error {
		return service.Run(ctx, sys.Conn.NATS(), service.Options{Name: "loopbus-runner", Version: "0.1.0",
			Busy: queries.Busy()}, sys.Queries(wiring.Catalogue{Models: manyModels})...)
	})
}

// manyModels are more models than a page has.
func manyModels() (list []schemas.ModelInfo) {
	for i := range 2500 {
		list = append(list, schemas.ModelInfo{API: "a", Provider: "p", ID: strconv.Itoa(i), Key: i == 0})
	}
	return list
}

func TestQueries(t *testing.T) {
	t.Parallel()
	sys := system.StartAlone(t, system.Options{Model: chunked(t, echoCall(), scripted.Text("done"))})
	answer(t, sys)
	c := connect(t, sys.URL)
	s := c.Session("s1")
	end := result(t, prompt(t, s, "list the files"))
	if err := c.Session("s2").Branch(deadline(t), "s1", 0); err != nil {
		t.Fatal(err)
	}
	state, err := s.State(deadline(t))
	if err != nil || state.Seq != end.Seq || state.Status != schemas.SessionIdle || state.Runs != 1 ||
		state.Messages != 4 {
		t.Errorf("state %+v, %v", state, err)
	}
	stats, err := s.Stats(deadline(t))
	if err != nil || stats.Turns != 2 || stats.ToolCalls != 1 || stats.Seq != end.Seq {
		t.Errorf("stats %+v, %v", stats, err)
	}
	messages, err := s.Messages(deadline(t), schemas.MessagesQuery{Limit: 1})
	if err != nil || len(messages.Messages) != 1 || !messages.Older {
		t.Errorf("messages %+v, %v", messages, err)
	}
	system.Eventually(t, "the index knows both sessions", func() bool {
		page, err := c.Sessions(deadline(t), schemas.SessionsQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Sessions) == 2 && page.Sessions[0].Session == "s2" && page.Sessions[1].Title == "list the files"
	})
	models, err := c.Models(deadline(t))
	if err != nil || !slices.EqualFunc(models, manyModels(), func(a, b schemas.ModelInfo) bool {
		return a.Ref() == b.Ref() && a.Key == b.Key
	}) {
		t.Errorf("%d models, %v", len(models), err)
	}
	tree, err := s.Tree(deadline(t), schemas.PageQuery{})
	if err != nil || len(tree.Nodes) != 2 {
		t.Errorf("tree %+v, %v", tree, err)
	}
	var refused *schemas.QueryError
	if _, err := c.Session("nobody").State(deadline(t)); !errors.As(err, &refused) ||
		refused.Code != schemas.QueryNotFound {
		t.Errorf("an unknown session: %v", err)
	}
	if _, err := s.Messages(deadline(t), schemas.MessagesQuery{Before: "x", After: "y"}); !errors.As(err, &refused) ||
		refused.Code == schemas.QueryInternal {
		t.Errorf("an invalid query: %v", err)
	}
	if _, err := c.Session("a.b").Stats(deadline(t)); !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("an illegal id: %v", err)
	}
}

// Without a runner a query waits for one, and then returns an error that says so.
func TestQueryWithoutARunner(t *testing.T) {
	t.Parallel()
	nc := connect(t, system.StartServer(t, false).ClientURL()).NATS()
	c, err := client.New(nc, client.Options{RequestTimeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Session("s1").State(t.Context()); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("got %v", err)
	}
}
