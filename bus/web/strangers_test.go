package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/web"
)

// An endlessBody has no data and does not end until end is closed.
type endlessBody struct {
	reading func()
	end     <-chan bool
}

func (b endlessBody) Read([]byte) (int, error) {
	b.reading()
	<-b.end
	return 0, io.EOF
}

// endless starts n requests without the token whose bodies do not end until stop is called. It returns when each is
// being read or was refused.
func endless(h http.Handler, n int, target string) (stop func()) {
	end := make(chan bool)
	var arriving, asking sync.WaitGroup
	for range n {
		arriving.Add(1)
		arrived := sync.OnceFunc(arriving.Done)
		r := httptest.NewRequest("POST", target, endlessBody{arrived, end})
		r.Host = "127.0.0.1:8080"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		asking.Go(func() { defer arrived(); h.ServeHTTP(httptest.NewRecorder(), r) })
	}
	arriving.Wait()
	return func() { close(end); asking.Wait() }
}

// Requests without the token do not take the places of those with it.
func TestStrangersHaveTheirOwnSlots(t *testing.T) {
	t.Parallel()
	const most = 16
	read := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	s, _ := site(t, web.Options{Token: token, MaxRequests: most,
		Mounts: []web.Mount{{Pattern: "/read", OwnToken: true, Handler: read}}})
	for _, target := range []string{"/login", "/read"} {
		stop := endless(s, 2*most, target)
		for _, path := range []string{"/in", "/own"} {
			if got := ask(s, "GET", path, bearer); got.StatusCode != 200 {
				t.Errorf("beside %s: %s with the token: %d", target, path, got.StatusCode)
			}
		}
		if got := ask(s, "POST", target); got.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("another %s: %d", target, got.StatusCode)
		}
		stop()
		if got := ask(s, "GET", "/own?shown="+token); got.StatusCode != 200 {
			t.Errorf("after %s: a token that comes later: %d", target, got.StatusCode)
		}
	}
}

// The time to read a form is short.
func TestFormThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	s, _ := site(t, web.Options{Token: token, Loopback: true})
	s.SetFormTime(10 * time.Millisecond)
	server := httptest.NewServer(s)
	defer server.Close()
	body, end := io.Pipe()
	defer func() { _ = end.Close() }()
	go func() { _, _ = io.Copy(end, strings.NewReader("token=")) }()
	resp, err := http.Post(server.URL+"/login", "application/x-www-form-urlencoded", body)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("status %d", resp.StatusCode)
	}
}
