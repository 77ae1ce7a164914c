package bridges_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// sent is a server-sent event.
type sent struct {
	id, name string
	data     struct {
		ID   string          `json:"id"`
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	raw string
}

// streamOf reads server-sent events up to the first one for which last returns true, or to the end.
func streamOf(t *testing.T, body io.Reader, last func(sent) bool) (all []sent) {
	t.Helper()
	var e sent
	for lines := bufio.NewScanner(body); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "\r") {
			t.Errorf("a line with CR: %q", line)
		}
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "id":
			e.id = value
		case name == "event":
			e.name = value
		case name == "data":
			if e.raw = value; json.Unmarshal([]byte(value), &e.data) != nil {
				t.Errorf("not valid JSON: %s", line)
			}
		case line == "" && e.raw != "":
			if all = append(all, e); last(e) {
				return all
			}
			e = sent{}
		}
	}
	return all
}

func never(sent) bool { return false }

// saidIn returns the text of an update.
func saidIn(e sent) (text string) {
	var d schemas.MessageUpdate
	if e.id != "" || json.Unmarshal(e.data.Data, &d) != nil {
		return ""
	}
	for _, part := range d.AssistantMessageEvents {
		if part.Type == schemas.StreamTextDelta {
			text += part.Delta
		}
	}
	return text
}

// A follower receives the text of a reply while the model streams. The model hangs after its first word, so that the
// update cannot be late: the bridge drops a late update, because the end of the message has the whole text.
func TestUpdatesForCurl(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	live := r.get("/sessions/s1/events?after=0")
	r.Prompt(t, "s1", "hang")
	all := streamOf(t, live.Body, func(e sent) bool { return saidIn(e) != "" })
	if len(all) == 0 || saidIn(all[len(all)-1]) != "begun " {
		t.Errorf("received %v", all)
	}
	r.Send(t, "s1", &schemas.Abort{})
	streamOf(t, live.Body, func(e sent) bool { return e.name == string(schemas.EventAgentEnd) })
}

// A follower receives each event once, in order, with the deltas between them. A client that reconnects with the id of
// the last event gets the rest.
func TestEventsForCurl(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	live := r.get("/sessions/s1/events?after=0")
	if got := live.Header.Get("Content-Type"); live.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", live.StatusCode, got)
	}
	r.Prompt(t, "s1", "tool please")
	all := streamOf(t, live.Body, func(e sent) bool { return e.name == string(schemas.EventAgentEnd) })
	seq := 0
	for _, e := range all {
		if e.id == "" {
			if !strings.HasPrefix(e.data.ID, "s1/") || !strings.Contains(e.data.ID, ".") {
				t.Errorf("an update is %s", e.raw)
			}
			continue
		}
		seq++
		if e.id != strconv.Itoa(seq) || e.data.ID != "s1/"+e.id || e.data.Type != "dev.loopbus."+e.name+".v1" {
			t.Errorf("event %d is %s %s", seq, e.id, e.raw)
		}
	}
	history := streamOf(t, r.get("/sessions/s1/events?after=0&follow=false").Body, never)
	if len(history) != seq {
		t.Errorf("the log has %d events, %d arrived live", len(history), seq)
	}
	rest := r.get("/sessions/s1/events?after=1&follow=false", "Last-Event-ID", strconv.Itoa(seq-2))
	again := streamOf(t, rest.Body, never)
	if len(again) != 2 || again[0].id != strconv.Itoa(seq-1) || again[1].raw != history[seq-1].raw {
		t.Errorf("after event %d arrived %d: %v", seq-2, len(again), again)
	}

	for path, want := range map[string]int{"/sessions/s1/events?after=x": 400, "/sessions/s1/events?follow=7": 400,
		"/sessions/a.b/events": 400, "/sessions/s1/events?after=-1": 400} {
		if got := r.get(path).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if response, err := http.Post(r.url+"/sessions/s1/events", "", nil); err != nil || response.StatusCode != 405 {
		t.Errorf("a POST: %v %v", response, err)
	} else {
		_ = response.Body.Close()
	}
}

// A session whose log has one event, a refused command, is deleted and begins again while it is followed, with a commit
// of three events. The stream ends with an error, and one from the first event on has all of the new session.
func TestAnotherLogForCurl(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	live := r.get("/sessions/s1/events?after=0")
	r.Send(t, "s1", &schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: "c1"}})
	all := streamOf(t, live.Body, func(e sent) bool {
		if e.id == "1" {
			r.delete("s1")
			r.Send(t, "s1", &schemas.Name{Name: "anew"})
		}
		return e.id == "3"
	})
	if len(all) != 2 || all[0].name != string(schemas.EventCommandRejected) || all[1].name != "error" ||
		!strings.Contains(all[1].raw, "are stored after event 1") {
		t.Errorf("received %+v", all)
	}
	log := r.LogOf(t, "s1")
	got := streamOf(t, r.get("/sessions/s1/events?after=0&follow=false").Body, never)
	if len(got) != len(log) || len(log) < 2 {
		t.Errorf("received %d of %d events of the new log", len(got), len(log))
	}
}
