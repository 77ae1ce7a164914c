// Package sse serves the events of a session as server-sent events, for curl and any client that can read a stream of
// lines:
//
//	curl -N -H "Authorization: Bearer …" http://127.0.0.1:8080/sessions/s1/events?after=12
//
// Each event of the log is sent as a CloudEvent in JSON, in order and exactly once, with its sequence as the id and
// its name as the event. Updates are sent in between without an id, so a client that reconnects with Last-Event-ID
// misses nothing. If the log cannot be read, an event "error" ends the stream. The client cannot send commands. A
// client that does not read is disconnected, and may reconnect.
package sse

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Pattern is the pattern to mount the handler at.
const Pattern = "GET /sessions/{session}/events"

// New returns the handler. views bounds what its streams have in memory of their sessions: the events that are being
// sent. Nil is a budget of [bridge.MaxViewed] bytes. Its query parameters are
//   - after: the sequence to start after, 0 for all; the header Last-Event-ID takes precedence. Default: from now on
//   - follow=false: end at the current end of the log
//   - updates=false: send only events
func New(c *client.Client, views *bridge.Budget) http.Handler {
	views = cmp.Or(views, bridge.NewViews(bridge.MaxViewed))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, err := parse(r)
		if err == nil {
			err = schemas.CheckSession(r.PathValue("session"))
		}
		if err != nil {
			bridge.Refuse(w, err)
			return
		}
		hold := views.Hold(r.PathValue("session"))
		defer hold.Release()
		s := c.Session(r.PathValue("session")).WithRoom(hold.Show)
		if o.follow {
			follow(w, r, s, o, hold)
			return
		}
		history(w, r, s, o, hold)
	})
}

// query holds the parameters of a request.
type query struct {
	from            uint64 // sequence of the first event; 0 means from now on
	follow, updates bool
}

func parse(r *http.Request) (q query, err error) {
	values := r.URL.Query()
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = values.Get("after")
	}
	q.follow, q.updates = true, true
	if after != "" {
		seq, err := strconv.ParseUint(after, 10, 53)
		if err != nil {
			return q, &bridge.RequestError{Reason: "after, or Last-Event-ID, is not a sequence: " + strconv.Quote(after)}
		}
		q.from = seq + 1
	}
	for name, to := range map[string]*bool{"follow": &q.follow, "updates": &q.updates} {
		if v := values.Get(name); v != "" {
			if *to, err = strconv.ParseBool(v); err != nil {
				return q, &bridge.RequestError{Reason: name + " is not true or false: " + strconv.Quote(v)}
			}
		}
	}
	return q, nil
}

// follow streams until the client disconnects. An error ends the stream with the event "error".
func follow(w http.ResponseWriter, r *http.Request, s *client.Session, q query, hold *bridge.Hold) {
	stream := bridge.NewEventStream(w)
	defer stream.End()
	for item, err := range s.Watch(r.Context(), q.from) {
		switch {
		case err != nil && !bridge.Gone(r.Context(), err):
			fail(stream, err)
			return
		case err != nil:
			return
		case item.Update != nil && !q.updates:
			continue
		}
		if !send(stream, item, hold) {
			return
		}
	}
}

// history streams what the log has now.
func history(w http.ResponseWriter, r *http.Request, s *client.Session, q query, hold *bridge.Hold) {
	stream := bridge.NewEventStream(w)
	defer stream.End()
	for e, err := range s.History(r.Context(), max(q.from, 1)) {
		if err != nil {
			fail(stream, err)
			return
		}
		if !send(stream, client.Item{Event: &e}, hold) {
			return
		}
	}
}

func fail(stream *bridge.EventStream, err error) {
	_, code := bridge.Status(err)
	data, _ := json.Marshal(map[string]string{"code": code, "message": err.Error()})
	_ = stream.Send("", "error", data) // a client that has disconnected needs no error
}

// update is an update as a CloudEvent.
type update struct {
	SpecVersion string             `json:"specversion"`
	ID          string             `json:"id"`
	Source      string             `json:"source,omitempty"`
	Type        string             `json:"type"`
	Time        string             `json:"time"`
	RunID       string             `json:"runid,omitempty"`
	TurnID      string             `json:"turnid,omitempty"`
	Data        schemas.UpdateData `json:"data"`
}

// send sends an item, and returns false if the stream ends. While it waits for the client it holds the item and its
// encoding, of which a payload was held before it was loaded; without room for them, an event "error" ends the stream,
// and the client may reconnect.
func send(stream *bridge.EventStream, item client.Item, hold *bridge.Hold) bool {
	id, name, data, err := encoded(item)
	if err == nil {
		err = hold.Set(2 * len(data))
	}
	if err != nil {
		fail(stream, err)
		return false
	}
	defer hold.Release()
	return stream.Send(id, name, data) == nil
}

// encoded returns an item as a CloudEvent, with its id and name in the stream. An update has no id.
func encoded(item client.Item) (id, name string, data []byte, err error) {
	if u := item.Update; u != nil {
		data, err = schemas.Marshal(update{SpecVersion: schemas.SpecVersion, ID: u.ID(), Source: u.Source,
			Type: schemas.CloudEventType(u.Data.EventType()), Time: u.Time.UTC().Format("2006-01-02T15:04:05.000Z"),
			RunID: u.RunID, TurnID: u.TurnID, Data: u.Data})
		return "", string(u.Data.EventType()), data, err
	}
	q, err := schemas.NewQueriedEvent(*item.Event)
	if err == nil {
		data, err = schemas.Marshal(q)
	}
	return strconv.FormatUint(item.Event.Seq, 10), string(item.Event.Type()), data, err
}
