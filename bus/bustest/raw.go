package bustest

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/embedded"
)

// PublishRaw publishes a message with a block of headers that no client library would write.
func PublishRaw(t testing.TB, s *embedded.Server, subject, header, data string) {
	t.Helper()
	conn, err := s.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	lines := bufio.NewScanner(conn)
	lines.Scan() // INFO; the pipe has no room for what nobody reads
	_, err = fmt.Fprintf(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n"+
		"HPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(header), len(header)+len(data), header, data)
	if err != nil {
		t.Fatal(err)
	}
	for lines.Scan() {
		if line := lines.Text(); line == "PONG" {
			return
		} else if strings.HasPrefix(line, "-ERR") {
			t.Fatal(line)
		}
	}
	t.Fatal("the server has closed the connection")
}
