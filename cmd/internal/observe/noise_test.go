package observe

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/smithy-go/logging"
	"go.opentelemetry.io/otel"
)

// noise returns what libraries print during the test.
func noise(t *testing.T) *bytes.Buffer {
	before := slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(before)
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	})
	out := new(bytes.Buffer)
	takeNoise(slog.New(slog.NewJSONHandler(out, nil)))
	return out
}

// What libraries print by themselves is in the program's log, a record each. The test is not parallel: what libraries
// print to is the process's.
func TestNoiseOfLibraries(t *testing.T) {
	out := noise(t)
	log.Printf("a library's %s", "warning")
	logging.StandardLogger{Logger: log.Default()}.Logf(logging.Warn, "of AWS") // as a provider is set up
	slog.Warn("its own record")
	otel.Handle(errors.New("traces export: connection refused"))
	for _, answer := range []string{": 401 no Bearer sk-1 (body: sk-2)", ": 503 (body: sk-3", ": body: sk-4",
		": OTLP partial success: sk-5 (1 span rejected)", `: malformed HTTP response "sk-6\"sk-7`,
		": malformed MIME header line: sk-8"} {
		otel.Handle(errors.New("traces export" + answer))
	}
	want := []struct{ level, msg, err string }{
		{"INFO", "a library's warning", ""}, {"INFO", "WARN of AWS", ""}, {"WARN", "its own record", ""},
		{"WARN", "OpenTelemetry reported an error", "traces export: connection refused"},
		{"WARN", "OpenTelemetry reported an error", "traces export: 401 …"},
		{"WARN", "OpenTelemetry reported an error", "traces export: 503 …"},
		{"WARN", "OpenTelemetry reported an error", "traces export: body: …"},
		{"WARN", "OpenTelemetry reported an error", "traces export: OTLP partial success: …"},
		{"WARN", "OpenTelemetry reported an error", `traces export: malformed HTTP response "…"`},
		{"WARN", "OpenTelemetry reported an error", "traces export: malformed MIME header line: …"},
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != len(want) {
		t.Fatalf("got %s", out.Bytes())
	}
	for i, line := range lines {
		var r struct{ Level, Msg, Err, From string }
		if err := json.Unmarshal(line, &r); err != nil || r.From != "library" || r.Level != want[i].level ||
			r.Msg != want[i].msg || r.Err != want[i].err {
			t.Errorf("got %s, %v, want %+v", line, err, want[i])
		}
	}
}

// A server that the process asks cannot fill the log, nor have printed there what it was sent. The test is not
// parallel, like the one above.
func TestNoiseOfServers(t *testing.T) {
	out := noise(t)
	const secret = "Bearer sk-123"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		r, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 400 you \"sent %s\\\r\n\r\n", r.Header.Get("Authorization"))
		_, _ = io.Copy(io.Discard, conn) // until the client closes the connection
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", secret)
	transport := new(http.Transport)
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	<-closed
	transport.CloseIdleConnections()
	for range 10 * linesAtOnce {
		log.Print("a line")
	}
	if text := out.String(); !strings.Contains(text, "Unsolicited response") || strings.Contains(text, "sk-123") {
		t.Errorf("got %s", text)
	}
	if n := strings.Count(out.String(), "\n"); n != linesAtOnce {
		t.Errorf("%d lines, want %d", n, linesAtOnce)
	}
}
