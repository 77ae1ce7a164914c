package integration_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/integration/internal/system"
)

// textClient speaks the text protocol of NATS over a plain TCP connection, as a client without a library can do in any
// language.
type textClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	sids int
}

// frame is a message as it was delivered.
type frame struct {
	subject string
	header  map[string][]string
	payload string
}

func dialText(t *testing.T, url string) *textClient {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &textClient{t: t, conn: conn, in: bufio.NewReader(conn)}
	if line := c.line(); !strings.HasPrefix(line, "INFO {") {
		t.Fatalf("the server's first line is %q", line)
	}
	c.write("CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\n")
	c.flush()
	return c
}

func (c *textClient) write(format string, args ...any) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, format, args...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *textClient) line() string {
	c.t.Helper()
	if err := c.conn.SetReadDeadline(time.Now().Add(system.Deadline)); err != nil {
		c.t.Fatal(err)
	}
	line, err := c.in.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\r\n")
}

// flush returns once the server has processed everything that was written before. No message may be in flight.
func (c *textClient) flush() {
	c.t.Helper()
	c.write("PING\r\n")
	if line := c.line(); line != "PONG" {
		c.t.Fatalf("PING was answered with %q", line)
	}
}

func (c *textClient) sub(subject string) {
	c.t.Helper()
	c.sids++
	c.write("SUB %s %d\r\n", subject, c.sids)
	c.flush()
}

func (c *textClient) pub(subject, reply, payload string) {
	c.t.Helper()
	c.write("PUB %s %s %d\r\n%s\r\n", subject, reply, len(payload), payload)
}

// hpub publishes with headers, given as lines without their ends.
func (c *textClient) hpub(subject, reply, payload string, headers ...string) {
	c.t.Helper()
	head := "NATS/1.0\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	c.write("HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(head), len(head)+len(payload), head, payload)
}

// next returns the next message, and answers pings of the server in the meantime.
func (c *textClient) next() frame {
	c.t.Helper()
	for {
		line := c.line()
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "PING":
			c.write("PONG\r\n")
		case "INFO", "PONG":
		case "MSG":
			return c.message(strings.Fields(rest), 0)
		case "HMSG":
			fields := strings.Fields(rest)
			last := len(fields) - 1
			return c.message(append(fields[:last-1:last-1], fields[last]), c.number(fields[last-1]))
		default:
			c.t.Fatalf("unexpected line %q from the server", line)
		}
	}
}

// message reads the message that a line of subject, sid, optional reply and size announces.
func (c *textClient) message(fields []string, head int) frame {
	c.t.Helper()
	body := make([]byte, c.number(fields[len(fields)-1])+2)
	if _, err := io.ReadFull(c.in, body); err != nil {
		c.t.Fatal(err)
	}
	f := frame{subject: fields[0], header: map[string][]string{}, payload: string(body[head : len(body)-2])}
	for line := range strings.SplitSeq(string(body[:head]), "\r\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			f.header[key] = append(f.header[key], strings.TrimSpace(value))
		}
	}
	return f
}

func (c *textClient) number(s string) int {
	c.t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// get returns the one value of a header. Names of NATS headers are case-sensitive.
func (f frame) get(name string) string {
	if v := f.header[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}
