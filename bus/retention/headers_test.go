package retention_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// forged returns an archive whose second message has a further header. All hashes fit.
func forged(t *testing.T, text, name string, values []string) string {
	t.Helper()
	var b strings.Builder
	out := json.NewEncoder(&b)
	out.SetEscapeHTML(false)
	encode := func(v any) {
		if err := out.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	hash, n := "", 0
	for line := range strings.Lines(text) {
		var l struct {
			Message *struct {
				Header map[string][]string `json:"header"`
				Batch  json.RawMessage     `json:"batch"`
			} `json:"message"`
			End *archive.Summary `json:"end"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		switch {
		case l.Message != nil:
			if n++; n == 2 {
				l.Message.Header[name] = values
			}
			if hash != "" {
				l.Message.Header[schemas.HeaderPrevious] = []string{hash}
			}
			hash = schemas.Hash(l.Message.Header, l.Message.Batch)
			encode(map[string]any{"message": l.Message})
		case l.End != nil:
			l.End.Hash = hash
			encode(map[string]any{"end": l.End})
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

// archived returns an archive of a session with several messages, which is deleted.
func (w *world) archived(session string) string {
	w.t.Helper()
	for range 3 {
		w.log(session, small())
	}
	var file bytes.Buffer
	_, err := archive.Write(bustest.Deadline(w.t), w.store, session, &file)
	w.must(err)
	_, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(w.t), retention.Request{Session: session})
	w.must(err)
	return file.String()
}

// A header that a server would store differently, or not at all, is refused before anything is changed: the hashes of
// the archive would not be those of the restored log.
func TestHeadersThatAreStoredDifferentlyAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.archived("s1")
	restore := func(text string) error {
		_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(text))
		return err
	}
	for _, c := range []struct {
		name   string
		values []string
		names  string // what the error says
	}{
		{"ce-x", []string{"a\r\nb"}, `"ce-x"`},
		{"ce-x", []string{"a\rb"}, `"ce-x"`},
		{"ce-x", []string{"fine", "a\nb"}, `"ce-x"`},
		{"ce-x", []string{" a"}, `"ce-x"`},
		{"ce-x", []string{"a\t"}, `"ce-x"`},
		{"ce-x", []string{}, `"ce-x"`},
		{"ce-x", nil, `"ce-x"`},
		{"ce-x", []string{strings.Repeat("a", 64<<10)}, "headers"},
		{"", []string{"a"}, `""`},
		{"ce x", []string{"a"}, `"ce x"`},
		{"ce-\u212a", []string{"a"}, "\"ce-\u212a\""},
		{"NATS-Rollup", []string{"sub"}, `"NATS-Rollup"`},
		{"TraceParent", []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, `"TraceParent"`},
	} {
		err := restore(forged(t, file, c.name, c.values))
		if !errors.Is(err, archive.ErrBad) || !strings.Contains(err.Error(), "line 3: ") ||
			!strings.Contains(err.Error(), c.names) {
			t.Errorf("%q: %.20q: %v", c.name, c.values, err)
		}
		if left := w.places("s1"); len(left) > 0 {
			t.Fatalf("%q: %.20q: left %q", c.name, c.values, left)
		}
	}
}

// Whatever other value a header has, it is stored as it is.
func TestOtherHeadersAreRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for session, values := range map[string][]string{
		"empty": {""}, "several": {"b", "a", "b"}, "control": {"a\x00\x01\v\f\x7fb"}, "spaces": {"a \t b"},
		"vertical": {"\va\f"}, "wide": {"\u00a0\u2028é\u00a0"}, "colon": {": x: y", "NATS/1.0"},
		"large": {strings.Repeat("a", 60<<10)},
	} {
		text := forged(t, w.archived(session), "ce-x", values)
		_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(text))
		w.must(err)
		r, err := w.store.Verify(bustest.Deadline(t), session, eventstore.VerifyOptions{})
		if err != nil || !r.OK() || r.Events != 3 {
			t.Errorf("%s: %+v, %v", session, r, err)
		}
	}
}

// A message that is larger than the server takes is found before anything is changed.
func TestAMessageThatIsTooLargeForTheServerIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := w.archived("s1")
	large := `"message":"` + strings.Repeat("x", int(w.conn.NATS().MaxPayload()))
	text := forged(t, strings.Replace(file, `"message":"`, large, 1), "ce-x", []string{"a"})
	_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(text))
	if !errors.Is(err, nats.ErrMaxPayload) || !strings.Contains(err.Error(), "message 1 ") {
		t.Errorf("%.300v", err)
	}
	if left := w.places("s1"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
}

// What cannot be restored is not archived: whoever archives a session may delete it then.
func TestALogThatCannotBeRestoredIsNotArchived(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for session, header := range map[string][2]string{
		"s1": {"Ce_x", "a"}, "s2": {"nats-x", "a"}, "s3": {"Status", "200"}, "s4": {"ce-x", "a\xff"},
	} {
		name, value := header[0], header[1]
		w.log("other-"+session, small())
		for m, err := range w.store.Messages(bustest.Deadline(t), "other-"+session) {
			w.must(err)
			msg := nats.NewMsg(w.conn.Subjects().Event(session))
			msg.Header = nats.Header(maps.Clone(m.Header))
			maps.DeleteFunc(msg.Header, func(key string, _ []string) bool { return strings.HasPrefix(key, "Nats-") })
			msg.Header[name] = []string{value}
			msg.Data = bytes.ReplaceAll(m.Payload, []byte("other-"), nil)
			_, err = w.conn.Events().PublishMsg(bustest.Deadline(t), msg)
			w.must(err)
		}
		_, err := archive.Write(bustest.Deadline(t), w.store, session, &bytes.Buffer{})
		if !errors.Is(err, eventstore.ErrDamaged) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
