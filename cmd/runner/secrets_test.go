package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// sniffer receives every message on a bus, and keeps where the secret was. Answers of a key service are
// where it belongs.
type sniffer struct {
	mu       sync.Mutex
	answers  map[string]bool // subjects
	messages int
	leaks    []string
}

func (w *world) sniff() *sniffer {
	w.t.Helper()
	e := &sniffer{answers: map[string]bool{}}
	sub, err := w.conn.NATS().Subscribe(">", e.receive)
	if err == nil {
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = sub.Unsubscribe() })
	return e
}

func (e *sniffer) receive(m *nats.Msg) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages++
	if strings.HasPrefix(m.Subject, "agent.key.") {
		e.answers[m.Reply] = true
	}
	if !e.answers[m.Subject] && strings.Contains(m.Subject+fmt.Sprint(m.Header)+string(m.Data), secret) {
		e.leaks = append(e.leaks, m.Subject)
	}
}

// wantNoSecretIn looks into every file below a directory.
func wantNoSecretIn(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the key is in the file %s", path)
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files of %s were read: %v", files, dir, err)
	}
}

// TestNoKeyIsSentOverTheBus has a runner that gets its keys from a key service serve the models of every API to others,
// and a vendor that says the key back. The key is in no message but the service's own, no stored file, no log and no
// event.
func TestNoKeyIsSentOverTheBus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := make(chan bool, 100)
	vendor := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		seen <- strings.Contains(fmt.Sprint(r.Header, r.URL), secret)
		out.Header().Set("X-Echo", secret)
		out.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(out, `{"error":{"message":"the key %s is not valid","type":"auth"}}`, secret)
	}))
	t.Cleanup(vendor.Close)
	keys, err := w.conn.NATS().Subscribe("agent.key.*", func(m *nats.Msg) { _ = m.Respond([]byte(secret)) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Unsubscribe() })
	e := w.sniff()
	if err := w.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	models, _ := shop(t, vendor.URL)
	common := []string{"--nats", w.url, "--max-retries", "0", "--http", "127.0.0.1:0", "--log-json", "--log-level",
		"debug"}
	runners := []*process{
		start(t, nil, append(common, "--id", "asks")...),
		start(t, []string{"HOME=" + t.TempDir()}, append(common, "--id", "serves", "--serve-models", "--key-service",
			"--models", models)...),
	}
	for _, p := range runners {
		p.ready()
	}
	for _, api := range slices.Sorted(maps.Keys(vendors)) {
		w.command(api, &schemas.SetModel{Model: schemas.ModelRef{Provider: "bus", ID: "my-" + api + "/m"}})
		w.prompt(api)
		log := w.until(api, 1, schemas.EventAgentEnd)
		if end := log[len(log)-1].Data.(*schemas.AgentEnd); !strings.Contains(end.ErrorMessage, "is not valid") {
			t.Errorf("%s: the run ends with %s %q, and the vendor's error is not shown", api, end.TerminationReason,
				end.ErrorMessage)
		}
		if len(seen) == 0 || !<-seen {
			t.Errorf("%s: the vendor did not get the key", api)
		}
	}
	for _, p := range runners {
		p.signal(os.Interrupt)
		p.wantExit(0)
		wantNoSecret(t, p)
	}
	if err := w.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	wantNoSecretIn(t, w.dir)
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.leaks) > 0 || len(e.answers) < len(vendors) || e.messages < 10*len(vendors) {
		t.Errorf("of %d messages these have the key: %v; the key service was asked %d times", e.messages,
			e.leaks, len(e.answers))
	}
}
