package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// reimport reads an export as another program would: by what the CloudEvents specification and the header grammar say.
// Where each event is a message, the export has its chain of hashes.
func reimport(t *testing.T, export string, chained bool) map[string][]schemas.Event {
	t.Helper()
	logs := make(map[string][]schemas.Event)
	hashes := make(map[string]string)
	scanner := bufio.NewScanner(strings.NewReader(export))
	scanner.Buffer(nil, 8<<20)
	for scanner.Scan() {
		ce, mode, err := codec.DecodeCloudEvent(nil, bytes.Clone(scanner.Bytes()))
		if err != nil || mode != codec.ModeStructured {
			t.Fatalf("mode %v: %v", mode, err)
		}
		if _, ok := ce.Extensions()["dataref"]; ok {
			t.Errorf("%s has a dataref", ce.ID())
		}
		msg, err := codec.EncodeCloudEvent(ce) // the data stay as they are
		if err != nil {
			t.Fatal(err)
		}
		e, err := schemas.DecodeEvent(msg.Header, msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := schemas.ValidateEvent(e.Type(), msg.Data); err != nil {
			t.Error(err)
		}
		if chained && e.PrevHash != hashes[e.Session] {
			t.Errorf("%s names %q as its predecessor's hash, which is %q", e.ID(), e.PrevHash, hashes[e.Session])
		}
		hashes[e.Session] = storedHash(msg.Header, msg.Data)
		logs[e.Session] = append(logs[e.Session], e)
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return logs
}

// storedHash is the hash of an exported event: what is above 256 KiB was stored by reference.
func storedHash(header map[string][]string, data []byte) string {
	if len(data) > 256<<10 {
		sum := sha256.Sum256(data)
		header[schemas.HeaderDataRef] = []string{"nats://agent_blobs/" + hex.EncodeToString(sum[:])}
		data = nil
	}
	return schemas.Hash(header, data)
}

func TestExportCanBeReadBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.serviceSession()
	w.bigSession()
	got := w.replay("export", "--all")
	expect(t, got, cli.StatusOK, "", "")
	logs := reimport(t, got.stdout, false)
	if len(logs) != 3 {
		t.Fatalf("%d sessions", len(logs))
	}
	for session, events := range logs {
		var want []schemas.Event
		for e, err := range w.store.Read(w.ctx(), session, 1) {
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, e)
		}
		if d := cmp.Diff(want, events); d != "" {
			t.Errorf("session %s (-stored +exported):\n%s", session, d)
		}
	}
	if one := w.replay("export", "big"); !strings.Contains(got.stdout, one.stdout) || one.stdout == "" {
		t.Error("the export of one session is not part of that of all")
	}
}

// A log of before is exported byte for byte as it always was.
func TestExportOfALogOfBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wr := w.writer("service")
	wr.before = true
	w.serviceSessionBy(wr)
	got := w.replay("export", "service")
	expect(t, got, cli.StatusOK, "", "")
	golden(t, "export", got.stdout)
	if logs := reimport(t, got.stdout, true); len(logs["service"]) != 16 {
		t.Errorf("%d events", len(logs["service"]))
	}
	expect(t, w.replay("verify", "service"), cli.StatusOK, "service: ok, 16 events", "")
}

// An export leaves no consumer on the server, whoever it reads for.
func TestExportLeavesNoConsumer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bigSession()
	w.serviceSession()
	expect(t, w.replay("export", "service"), cli.StatusOK, "service/1", "")
	expect(t, w.replay("export", "--all"), cli.StatusOK, "big/1", "")
	for _, name := range []string{schemas.StreamEvents, "OBJ_" + schemas.BucketBlobs} {
		stream, err := w.conn.JetStream().Stream(w.ctx(), name)
		if err != nil {
			t.Fatal(err)
		}
		bustest.Eventually(t, name+" has no consumer", func() bool {
			info, err := stream.Info(w.ctx())
			return err == nil && info.State.Consumers == 0
		})
	}
}
