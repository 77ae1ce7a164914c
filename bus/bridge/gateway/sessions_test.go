package gateway_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bridge/gateway"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// A connection that is told of changed sessions ends if the index of sessions was lost: its changes have lower
// revisions then, and none of them would be told.
func TestTheListOfSessionsBeginsAgain(t *testing.T) {
	t.Parallel()
	nc := bustest.New(t).NATS()
	revision := uint64(7)
	answers, err := nc.Subscribe("agent.query.sessions", func(m *nats.Msg) { // one runner, which has lost the bucket
		var q schemas.SessionsQuery
		_ = json.Unmarshal(m.Data, &q)
		answer := nats.NewMsg(m.Reply)
		answer.Data, _ = schemas.Marshal(schemas.SessionsPage{Revision: revision, Sessions: []schemas.SessionSummary{}})
		if q.Revision > revision {
			answer.Header.Set("Nats-Service-Error-Code", "503")
			answer.Data, _ = schemas.Marshal(schemas.QueryError{Code: schemas.QueryUnavailable})
		}
		revision = 3
		_ = m.RespondMsg(answer)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	c, err := client.New(nc, client.Options{RequestTimeout: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := gateway.New(c, gateway.Options{})
	s := httptest.NewServer(b)
	defer func() { b.Close(); s.Close() }()
	ctx := bustest.Deadline(t)
	ws, _, err := websocket.Dial(ctx, strings.Replace(s.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	for _, request := range []string{
		`{"type":"req","id":"1","method":"connect","params":{"minProtocol":4,"maxProtocol":4}}`,
		`{"type":"req","id":"2","method":"sessions.subscribe"}`,
	} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(request)); err != nil {
			t.Fatal(err)
		}
	}
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusInternalError || !strings.Contains(err.Error(), "list of sessions") {
		t.Errorf("the connection ends with %v", err)
	}
}
