package natsws_test

import (
	"errors"
	"io"
	"testing"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsws"
)

// connects sends the CONNECT of a user to a stub.
func connects(t *testing.T, server io.Reader, ws *websocket.Conn, user string) {
	t.Helper()
	line := `CONNECT {"user":"` + user + "\"}\r\n"
	if err := ws.Write(bustest.Deadline(t), websocket.MessageBinary, []byte(line)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, len(line))); err != nil {
		t.Fatal(err)
	}
}

// Visitors whom the server has not admitted keep nobody out, whatever it says to them: the one that came first makes
// room. One that it has admitted makes room for nobody.
func TestSilentVisitorsMakeRoom(t *testing.T) {
	t.Parallel()
	s := make(stub)
	_, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{InProcess: s}, MaxConnections: 2})
	says := func(server io.Writer, ws *websocket.Conn, line string) {
		t.Helper()
		if _, err := io.WriteString(server, line); err != nil {
			t.Fatal(err)
		}
		if _, said, err := ws.Read(bustest.Deadline(t)); err != nil || string(said) != line {
			t.Fatalf("%q, %v, want %q", said, err, line)
		}
	}
	first, server := greeted(t, s, addr, nil)
	connects(t, server, first, "ann")
	says(server, first, "PONG\r\n")
	second, server2 := greeted(t, s, addr, nil)
	says(server2, second, "PING\r\n")
	says(server2, second, "-ERR 'Authorization Violation'\r\n")
	third, server3 := greeted(t, s, addr, nil)
	fourth, server4 := greeted(t, s, addr, nil)
	if err := ends(t, second); websocket.CloseStatus(err) != -1 {
		t.Errorf("the one that came first ended with %v", err)
	}
	connects(t, server3, third, "bob")
	says(server3, third, "+OK\r\n")
	says(server, first, "PONG\r\n")
	connects(t, server4, fourth, "cy")
	if _, err := io.WriteString(server4, "PONG\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := ends(t, fourth); websocket.CloseStatus(err) != websocket.StatusTryAgainLater {
		t.Errorf("one that is admitted and finds no place ended with %v", err)
	}
}

// Who has credentials gets in while all who have none keep coming back.
func TestAdmittedAmongSilentVisitors(t *testing.T) {
	t.Parallel()
	up := bustest.NATS(t, &server.Options{Users: []*server.User{{Username: "ann", Password: "secret"},
		{Username: "bob", Password: "secret"}}})
	_, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{URL: up.ClientURL()}, MaxConnections: 2})
	var all []*nats.Conn
	for _, user := range []string{"ann", "bob"} {
		for range 5 {
			ws, r, err := websocket.Dial(bustest.Deadline(t), "ws://"+addr, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Body != nil {
				_ = r.Body.Close()
			}
			defer func() { _ = ws.CloseNow() }()
		}
		nc, err := connect(addr, nats.UserInfo(user, "secret"), nats.NoReconnect())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		all = append(all, nc)
	}
	for _, nc := range all {
		if err := nc.FlushWithContext(bustest.Deadline(t)); err != nil {
			t.Error(err)
		}
	}
	if _, err := connect(addr, nats.UserInfo("ann", "wrong")); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the password: %v", err)
	}
}
