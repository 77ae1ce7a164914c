package observe_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/cmd/internal/observe"
)

// A path that is not clean is left to the other handlers, which check it: a redirect would repeat the token of a link.
func TestPathsAreNotRedirected(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	site := observe.Site{Metrics: prometheus.NewRegistry(), Unready: func() string { return "" },
		Others: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
		}), Log: slog.New(slog.DiscardHandler)}
	go func() { ended <- site.Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for path, want := range map[string]int{
		"//evil.com/?token=T": http.StatusTeapot, "/a/../metrics?token=T": http.StatusTeapot, "/x": http.StatusTeapot,
		"/healthz": http.StatusOK, "/readyz": http.StatusOK, "/metrics": http.StatusOK,
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != want || resp.Header.Get("Location") != "" {
			t.Errorf("%s: %s, to %q", path, resp.Status, resp.Header.Get("Location"))
		}
		_ = resp.Body.Close()
		_ = c.Close()
	}
}

// Clients that ask for the metrics and do not read them keep no other from them.
func TestDeafScrapersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := prometheus.NewRegistry()
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "large_total"}, []string{"label"})
	metrics.MustRegister(vec)
	for n := range 2000 {
		vec.WithLabelValues(fmt.Sprintf("%01000d", n)).Inc()
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	site := observe.Site{Metrics: metrics, Unready: func() string { return "" }, Log: slog.New(slog.DiscardHandler)}
	go func() { ended <- site.Serve(ctx, l) }()
	defer func() {
		stop()
		<-ended
	}()
	for range 8 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = fmt.Fprint(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 20))
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil { // one answer is on its way
			t.Fatal(err)
		}
	}
	answer := func() int {
		r, err := http.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			return 0
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	for deadline := time.Now().Add(10 * time.Second); answer() != http.StatusOK; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no metrics")
		}
	}
}
