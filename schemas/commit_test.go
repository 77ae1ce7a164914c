package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// commitSamples are events of one commit whose attributes come, stay, change and go.
func commitSamples() []schemas.Event {
	first := sampleEvent()
	plain := func(seq uint64) schemas.Event {
		return schemas.Event{
			Session: "s1", Seq: seq, Time: first.Time, Source: "/x", PrevHash: first.PrevHash,
			Data: &schemas.TurnStart{TurnIndex: int(seq)},
		}
	}
	same := first
	same.Seq, same.Data = 43, &schemas.ErrorEvent{Code: "x", Message: "ü \"q\" \\ <tag> \u2028\n"}
	bare, own, caused := plain(44), plain(45), plain(46)
	own.Time, own.RunID, own.CorrelationID, own.CausationID = first.Time.Add(time.Nanosecond), "r2", "c\\1", "c\\1"
	caused.Time, caused.RunID, caused.CorrelationID, caused.TurnID = own.Time, "r2", "c2", "\u2028"
	return []schemas.Event{first, same, bare, own, caused}
}

func encodeCommit(t *testing.T, events ...schemas.Event) (map[string][]string, []byte) {
	t.Helper()
	header, payload, err := schemas.EncodeCommit(events...)
	if err != nil {
		t.Fatal(err)
	}
	return header, payload
}

func TestCommitRoundTrip(t *testing.T) {
	all := commitSamples()
	for _, want := range [][]schemas.Event{all, all[2:], all[3:4], {
		{Session: "s1", Seq: 1, Source: "/x", Data: &schemas.TurnStart{}}}, // at the time zero, before all
	} {
		for i := range want {
			want[i].PrevHash = want[0].PrevHash
		}
		header, payload := encodeCommit(t, want...)
		if first, last, err := schemas.LogSpan("s1", header); first != want[0].Seq || last != want[len(want)-1].Seq ||
			err != nil {
			t.Errorf("span %d to %d, %v", first, last, err)
		}
		got, err := schemas.DecodeLog("s1", header, payload, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// Whatever the official library makes of a commit is a CloudEvent.
func TestCommitIsABatchOfCloudEvents(t *testing.T) {
	events := commitSamples()
	events[0].Source, events[1].Source = "/loopbus/runner/a", "/loopbus/runner/a" // a URI
	_, payload := encodeCommit(t, events...)
	var batch []cloudevents.Event
	if err := json.Unmarshal(payload, &batch); err != nil {
		t.Fatal(err)
	}
	for i, want := range events {
		got := batch[i]
		if err := got.Validate(); err != nil {
			t.Errorf("event %d: %v", i, err)
		}
		data, err := schemas.Marshal(want.Data)
		if err != nil || string(got.Data()) != string(data) {
			t.Errorf("event %d: data %s, want %s", i, got.Data(), data)
		}
		if got.ID() != want.ID() || got.Source() != want.Source || got.Type() != schemas.CloudEventType(want.Type()) {
			t.Errorf("event %d is %s of %s, a %s", i, got.ID(), got.Source(), got.Type())
		}
	}
}

func TestCommitIsShort(t *testing.T) {
	_, payload := encodeCommit(t, commitSamples()...)
	for _, absent := range []string{"partitionkey", "dataschema", "datacontenttype", "subject", "sequence", "prevhash"} {
		if strings.Contains(string(payload), `"`+absent+`"`) {
			t.Errorf("%s is stored", absent)
		}
	}
	for name, want := range map[string]int{"time": 2, "runid": 3, "traceparent": 2, "correlationid": 4, "causationid": 3} {
		if got := strings.Count(string(payload), `"`+name+`"`); got != want {
			t.Errorf("%d times %s, want %d, in\n%s", got, name, want, payload)
		}
	}
}

// A message of the form of before is read with the same functions.
func TestLogOfBinaryMode(t *testing.T) {
	want := sampleEvent()
	header, payload, err := schemas.EncodeEvent(want)
	if err != nil {
		t.Fatal(err)
	}
	if first, last, err := schemas.LogSpan("s1", header); first != 42 || last != 42 || err != nil {
		t.Errorf("span %d to %d, %v", first, last, err)
	}
	got, err := schemas.DecodeLog("s1", header, payload, nil)
	if err != nil || len(got) != 1 {
		t.Fatalf("%d events, %v", len(got), err)
	}
	if d := cmp.Diff(want, got[0]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if _, err := schemas.DecodeLog("s2", header, payload, nil); !errors.Is(err, schemas.ErrAttribute) {
		t.Errorf("of another session: %v", err)
	}
}

// What is not there, or not whole, is refused: a prefix of a commit is no commit.
func TestBrokenCommits(t *testing.T) {
	events := commitSamples()
	header, payload := encodeCommit(t, events...)
	whole := string(payload)
	two := whole[strings.Index(whole, `,{"specversion":"1.0","id":"s1/43"`):]
	one, _, _ := strings.Cut(whole, two)
	for name, broken := range map[string]string{
		"a prefix":          one + "]",
		"a suffix":          "[" + two[1:],
		"cut off":           whole[:len(whole)/2],
		"reordered":         strings.NewReplacer("s1/43", "s1/44", "s1/44", "s1/43").Replace(whole),
		"an id twice":       strings.ReplaceAll(whole, "s1/44", "s1/43"),
		"another session":   strings.ReplaceAll(whole, "s1/44", "s2/44"),
		"one more":          strings.TrimSuffix(whole, "]") + strings.ReplaceAll(two, "s1/43", "s1/47"),
		"something after":   whole + "1",
		"no source":         strings.Replace(whole, `,"source":"/x"`, "", 1),
		"an empty source":   strings.Replace(whole, `,"source":"/x"`, `,"source":""`, 1),
		"no specversion":    strings.Replace(whole, `"specversion":"1.0",`, "", 1),
		"another version":   strings.Replace(whole, `"specversion":"1.0",`, `"specversion":"0.3",`, 1),
		"a foreign type":    strings.Replace(whole, `dev.loopbus.error.v1`, `com.example.error`, 1),
		"no time":           strings.Replace(whole, `"time"`, `"thyme"`, 1),
		"no such time":      strings.Replace(whole, `"time":"2026`, `"time":"26`, 1),
		"no data":           strings.Replace(whole, `"data"`, `"date"`, 1),
		"data twice over":   strings.Replace(whole, `"data"`, `"dataref":"x","data"`, 1),
		"a number for text": strings.Replace(whole, `"turnid":"r1-t0"`, `"turnid":5`, 1),
		"no list":           "{}",
		"nothing":           "",
	} {
		if broken == whole {
			t.Errorf("%s: not broken", name)
		}
		if got, err := schemas.DecodeLog("s1", header, []byte(broken), nil); err == nil {
			t.Errorf("%s: %d events and no error", name, len(got))
		}
	}
	for _, span := range []string{"", "v2 42", "v2 42-", "v2 -42", "v2 43-42", "v3 42-46", "v2 0-4", "v2 042-46", "42-46",
		"v2 42-18446744073709551616"} {
		header[schemas.HeaderCommit] = []string{span}
		if first, last, err := schemas.LogSpan("s1", header); err == nil {
			t.Errorf("span %q is %d to %d", span, first, last)
		}
	}
}

// What another writer of JSON makes of a commit, and attributes that nobody knows yet, change nothing.
func TestCommitOfAnotherWriter(t *testing.T) {
	want := commitSamples()
	header, payload := encodeCommit(t, want...)
	var again bytes.Buffer
	later := strings.ReplaceAll(string(payload), `{"specversion"`, `{"later":{"a":[1.5,"]}",null,true]},"specversion"`)
	if err := json.Indent(&again, []byte(later), " ", "\t"); err != nil {
		t.Fatal(err)
	}
	got, err := schemas.DecodeLog("s1", header, again.Bytes(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		a, _ := schemas.Marshal(want[i].Data)
		b, _ := schemas.Marshal(got[i].Data)
		if !bytes.Equal(a, b) {
			t.Errorf("event %d: %s, want %s", i, b, a)
		}
		got[i].Data = want[i].Data
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDataKeptElsewhere(t *testing.T) {
	e := sampleEvent()
	data, err := schemas.AppendData(nil, e.Data)
	if err != nil {
		t.Fatal(err)
	}
	var c schemas.Commit
	if err := c.Add(&e, data, "nats://agent_blobs/x"); err != nil {
		t.Fatal(err)
	}
	header, payload := c.Header(e.PrevHash), c.Payload()
	if _, err := schemas.DecodeLog("s1", header, payload, nil); !errors.Is(err, schemas.ErrElsewhere) {
		t.Errorf("not fetched: %v", err)
	}
	got, err := schemas.DecodeLog("s1", header, payload, func(ref string) ([]byte, error) {
		if ref != "nats://agent_blobs/x" {
			return nil, fmt.Errorf("asked for %q", ref)
		}
		return data, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]schemas.Event{e}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// A commit that is used again knows nothing of before.
func TestCommitReset(t *testing.T) {
	var c schemas.Commit
	add := func(events ...schemas.Event) {
		for _, e := range events {
			data, err := schemas.AppendData(nil, e.Data)
			if err == nil {
				err = c.Add(&e, data, "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	events := commitSamples()
	for range 2 {
		add(events...)
		if err := c.Add(&events[2], []byte("{}"), ""); err == nil {
			t.Error("an event that does not follow was taken")
		}
		got, err := schemas.DecodeLog("s1", c.Header(events[0].PrevHash), c.Payload(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(events, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		c.Reset()
	}
}

func TestHashCoversTheCommit(t *testing.T) {
	header, payload := encodeCommit(t, commitSamples()...)
	hash := schemas.Hash(header, payload)
	for _, key := range []string{schemas.HeaderCommit, schemas.HeaderPrevious} {
		was := header[key]
		header[key] = []string{"x"}
		if schemas.Hash(header, payload) == hash {
			t.Errorf("%s is not in the hash", key)
		}
		header[key] = was
	}
	header["Nats-Expected-Last-Subject-Sequence"] = []string{"7"}
	if schemas.Hash(header, payload) != hash {
		t.Error("the server's headers are in the hash")
	}
}

// FuzzDecodeLog holds that nothing that is published on a log brings a reader down, and that what is read can be
// written.
func FuzzDecodeLog(f *testing.F) {
	_, payload, err := schemas.EncodeCommit(commitSamples()...)
	if err != nil {
		f.Fatal(err)
	}
	f.Add("v2 42-46", payload)
	f.Add("v2 1-18446744073709551615", []byte(`[{"id":"s1/1","data":[}`))
	f.Fuzz(func(t *testing.T, span string, payload []byte) {
		header := map[string][]string{schemas.HeaderCommit: {span}}
		events, err := schemas.DecodeLog("s1", header, payload, nil)
		if err != nil || len(events) == 0 {
			return
		}
		header, payload, err = schemas.EncodeCommit(events...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := schemas.DecodeLog("s1", header, payload, nil); err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
	})
}
