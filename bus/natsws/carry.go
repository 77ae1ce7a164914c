package natsws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// frame is the target size of a frame to the client.
const frame = 32 << 10

// closeTimeout limits how long a client may take to answer a close.
const closeTimeout = 500 * time.Millisecond

var (
	errServerEnded = errors.New("the server ended the connection")
	errClientEnded = errors.New("the client ended the connection")
	errStopping    = errors.New("the bridge is stopping")
	errSilent      = errors.New("the server did not admit the client in time, and another one needed its place")
	errFull        = errors.New("too many connections")
)

// carrier carries one connection.
type carrier struct {
	o      Options
	ws     *websocket.Conn
	end    func() // closes the underlying connection
	server *link
	jwt    string
	caller atomic.Value // of the client's CONNECT, a string; stored before the server sees it
	out    []byte       // to the client, not sent yet
	admit  func() bool  // reserves the place of a client that the server has admitted; nil after that
}

// carry returns when one side has ended, place ends, or stop is closed, with the reason. The other side receives the
// reason, except from a client that makes room for another one: its connection ends at once.
func (c *carrier) carry(place context.Context, stop <-chan struct{}) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 3)
	var all sync.WaitGroup
	for _, part := range []func(context.Context) error{c.toServer, c.toClient, c.ping} {
		all.Go(func() { ended <- part(ctx) })
	}
	select {
	case err = <-ended:
	case <-stop:
		err = errStopping
	case <-place.Done():
		if err = errStopping; errors.Is(context.Cause(place), errSilent) {
			err = errSilent
			c.end()
		}
	}
	_ = c.server.SetDeadline(time.Unix(1, 0)) // unblocks the goroutine that waits for the server
	hurry := time.AfterFunc(closeTimeout, func() { cancel(); c.end() })
	defer hurry.Stop()
	_ = c.ws.Close(closeCode(err)) // unblocks the goroutine that waits for the client
	cancel()
	all.Wait()
	return err
}

// closeCode returns the close code and reason for the client.
func closeCode(err error) (websocket.StatusCode, string) {
	switch {
	case errors.Is(err, errStopping):
		return websocket.StatusGoingAway, "the runner is stopping"
	case errors.Is(err, errFull):
		return websocket.StatusTryAgainLater, errFull.Error()
	case errors.Is(err, errServerEnded):
		return websocket.StatusNormalClosure, "the NATS server ended the connection"
	}
	return websocket.StatusPolicyViolation, "protocol error"
}

// toClient carries the server's output line by line, and sends a frame when no more is buffered.
func (c *carrier) toClient(ctx context.Context) error {
	c.out = append(make([]byte, 0, frame), c.server.info.line...)
	for {
		if len(c.out) > 0 && (c.server.r.Buffered() == 0 || len(c.out) >= frame) {
			if err := c.send(ctx); err != nil {
				return err
			}
		}
		line, err := c.server.r.ReadSlice('\n')
		switch {
		case err != nil && len(line) == 0:
			return fmt.Errorf("%w: %w", errServerEnded, err)
		case err != nil:
			return fmt.Errorf("%w: in a line of %d bytes: %w", errServerEnded, len(line), err)
		}
		if err := c.line(ctx, line); err != nil {
			return err
		}
	}
}

// line processes one line of the protocol and the payload that follows it.
func (c *carrier) line(ctx context.Context, line []byte) error {
	if c.admit != nil && admits(line) {
		if !c.admit() {
			return errFull
		}
		c.admit = nil
	}
	switch {
	case bytes.HasPrefix(line, []byte("INFO ")):
		said, err := parseInfo(line[len("INFO "):])
		if err != nil {
			return err
		}
		c.out = append(c.out, said.line...)
		return nil
	case bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("HMSG ")):
		fields := bytes.Fields(line)
		size, err := strconv.ParseUint(string(fields[len(fields)-1]), 10, 31)
		if err != nil {
			return fmt.Errorf("the server's line %.80q has no size", line)
		}
		c.out = append(c.out, line...)
		return c.payload(ctx, int(size)+len("\r\n"))
	}
	c.out = append(c.out, line...)
	return nil
}

// admits reports whether a server says this only to a client that it has admitted.
func admits(line []byte) bool {
	for _, first := range []string{"INFO ", "PING\r", "-ERR "} {
		if bytes.HasPrefix(line, []byte(first)) {
			return false
		}
	}
	return true
}

// payload carries n bytes, a frame at a time.
func (c *carrier) payload(ctx context.Context, n int) error {
	for n > 0 {
		if len(c.out) >= frame {
			if err := c.send(ctx); err != nil {
				return err
			}
		}
		at := len(c.out)
		part := min(n, frame)
		c.out = append(c.out, make([]byte, part)...)
		if _, err := io.ReadFull(c.server.r, c.out[at:]); err != nil {
			return fmt.Errorf("%w: %w", errServerEnded, err)
		}
		n -= part
	}
	return nil
}

// send sends the buffered bytes. A client that does not accept them in time is disconnected.
func (c *carrier) send(ctx context.Context) error {
	one, cancel := context.WithTimeout(ctx, c.o.WriteTimeout)
	defer cancel()
	if err := c.ws.Write(one, websocket.MessageBinary, c.out); err != nil {
		return fmt.Errorf("%w: %w", errClientEnded, err)
	}
	c.out = c.out[:0]
	return nil
}

// toServer carries the client's output. It waits for the first frame no longer than FirstTimeout.
func (c *carrier) toServer(ctx context.Context) error {
	first, cancel := context.WithTimeout(ctx, c.o.FirstTimeout)
	err := c.frame(first, c.connect)
	cancel()
	buf := make([]byte, frame)
	for err == nil {
		err = c.frame(ctx, func(r io.Reader) error {
			_, err := io.CopyBuffer(struct{ io.Writer }{c.server}, r, buf)
			return err
		})
	}
	return fmt.Errorf("%w: %w", errClientEnded, err)
}

// frame reads one frame. NATS uses binary frames; text frames have the same bytes and are accepted too.
func (c *carrier) frame(ctx context.Context, take func(io.Reader) error) error {
	_, r, err := c.ws.Reader(ctx)
	if err != nil {
		return err
	}
	return take(r)
}

// connect carries the first frame. It adds the JWT of the cookie to the client's CONNECT, and learns from it who the
// caller is.
func (c *carrier) connect(r io.Reader) error {
	said, err := io.ReadAll(io.LimitReader(r, controlLine))
	if err != nil {
		return err
	}
	end := len(said)
	if i := bytes.Index(said, []byte("\r\n")); i >= 0 {
		end = i
	}
	line, rest := said[:end], said[end:]
	if c.jwt != "" {
		if line, err = withJWT(line, c.jwt); err != nil {
			return err
		}
	}
	c.caller.Store(callerOf(line))
	if _, err = c.server.Write(slices.Concat(line, rest)); err == nil {
		_, err = io.Copy(c.server, r)
	}
	return err
}

// withJWT adds a JWT to a CONNECT without credentials.
func withJWT(line []byte, jwt string) ([]byte, error) {
	var members map[string]json.RawMessage
	data, ok := bytes.CutPrefix(line, []byte("CONNECT "))
	if !ok || json.Unmarshal(data, &members) != nil {
		return nil, errors.New("the client's first line is not CONNECT")
	}
	for _, own := range []string{"user", "pass", "auth_token", "jwt", "nkey"} {
		if v := string(members[own]); v != "" && v != `""` && v != "null" {
			return line, nil
		}
	}
	own, err := json.Marshal(jwt)
	if err != nil {
		return nil, err
	}
	members["jwt"] = own
	if data, err = json.Marshal(members); err != nil {
		return nil, err
	}
	return append([]byte("CONNECT "), data...), nil
}

// ping checks regularly whether the client is still there.
func (c *carrier) ping(ctx context.Context) error {
	tick := time.NewTicker(c.o.PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			one, cancel := context.WithTimeout(ctx, c.o.WriteTimeout)
			err := c.ws.Ping(one)
			cancel()
			if err != nil {
				return fmt.Errorf("%w: no answer to a ping: %w", errClientEnded, err)
			}
		}
	}
}
