// Package upgrade makes WebSockets of requests whose connections end for certain. To close one the library first reads
// what is left of a frame, without a time limit: a client that announces a frame of a terabyte, and sends more of it
// than may be read, would keep its connection, and whoever closes it, for as long as it likes. [Places] limits how many
// there are.
package upgrade

import (
	"bufio"
	"net"
	"net/http"

	"github.com/coder/websocket"
)

// Accept is that of the library. end closes the connection below, at once and without a word; it has to be called when
// the WebSocket has ended, and may be called at any time, more than once and concurrently.
func Accept(w http.ResponseWriter, r *http.Request, o *websocket.AcceptOptions) (ws *websocket.Conn, end func(),
	err error) {
	h := &hijacker{ResponseWriter: w}
	ws, err = websocket.Accept(h, r, o)
	end = func() {
		if h.conn != nil {
			_ = h.conn.Close()
		}
	}
	return ws, end, err
}

// hijacker remembers the connection that is taken over.
type hijacker struct {
	http.ResponseWriter
	conn net.Conn
}

func (h *hijacker) Hijack() (conn net.Conn, rw *bufio.ReadWriter, err error) {
	h.conn, rw, err = http.NewResponseController(h.ResponseWriter).Hijack()
	return h.conn, rw, err
}
