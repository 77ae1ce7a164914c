package upgrade_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/upgrade"
)

// A client that has sent more than may be read of a frame without an end, and does not close its side, keeps neither a
// connection nor who closes it.
func TestTheConnectionEnds(t *testing.T) {
	t.Parallel()
	read := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, end, err := upgrade.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		ws.SetReadLimit(10)
		_, _, err = ws.Read(r.Context())
		hurry := time.AfterFunc(50*time.Millisecond, end)
		defer hurry.Stop()
		_ = ws.Close(websocket.StatusNormalClosure, "")
		read <- err
	}))
	defer s.Close()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	text := "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n" +
		"\x81\xff\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00twenty bytes of text"
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if !errors.Is(err, websocket.ErrMessageTooBig) {
			t.Errorf("read: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("closing waits for the client")
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays")
	}
}
