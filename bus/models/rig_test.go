package models_test

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// modelFunc is a model that streams the events for which it calls say.
type modelFunc func(ctx context.Context, req schemas.ModelRequest, say func(schemas.StreamEvent) bool) error

func (f modelFunc) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if err := f(ctx, req, func(e schemas.StreamEvent) bool { return yield(e, nil) }); err != nil {
			yield(schemas.StreamEvent{}, err)
		}
	}
}

// serveModels serves a model on c until stop is called or the test ends.
func serveModels(t testing.TB, c *bus.Conn, m models.Model, o models.ServerOptions) (stop func()) {
	t.Helper()
	o.Model = m
	s := models.NewServer(c, o)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	select {
	case <-s.Ready():
	case <-bustest.Deadline(t).Done():
		t.Fatal("the server did not become ready")
	}
	return stop
}

func onBus(id string) schemas.ModelRef {
	return schemas.ModelRef{API: models.Provider, Provider: models.Provider, ID: id}
}

// reply returns a vendor's message with one text.
func reply(text string, reason schemas.StopReason) *schemas.AssistantMessage {
	m := &schemas.AssistantMessage{API: "api", Provider: "vendor", Model: "m", StopReason: reason,
		Content: schemas.Contents{}}
	if text != "" {
		m.Content = schemas.Contents{schemas.Text{Text: text}}
	}
	return m
}

func start() schemas.StreamEvent {
	return schemas.StreamEvent{Type: schemas.StreamStart, Message: reply("", schemas.StopStop)}
}

func piece(text string) schemas.StreamEvent {
	return schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: text}
}

func done(text string) schemas.StreamEvent {
	return schemas.StreamEvent{Type: schemas.StreamDone, Reason: schemas.StopStop, Message: reply(text, schemas.StopStop)}
}

// stream calls the model and returns all events, and the message of the last one, which is terminal.
func stream(t *testing.T, c *models.Client, req schemas.ModelRequest) (events []schemas.StreamEvent,
	last *schemas.AssistantMessage) {
	t.Helper()
	for e, err := range c.Stream(bustest.Deadline(t), req) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	if len(events) == 0 || !events[len(events)-1].Terminal() {
		t.Fatalf("the stream ends without a terminal event: %v", events)
	}
	return events, events[len(events)-1].Message
}

// wantFailure checks that a reply failed with an error message that contains words.
func wantFailure(t *testing.T, m *schemas.AssistantMessage, words string) {
	t.Helper()
	if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, words) {
		t.Errorf("the reply ends with %s, %q; want error, %q", m.StopReason, m.ErrorMessage, words)
	}
}

// rawServer answers model requests message by message, as a server in another language would. It returns once it is
// subscribed.
func rawServer(t *testing.T, c *bus.Conn, answer func(say func(seq int, frame string))) {
	t.Helper()
	nc := c.NATS()
	if _, err := nc.QueueSubscribe("agent.model.request", "models", func(m *nats.Msg) {
		answer(func(seq int, frame string) {
			out := nats.NewMsg(m.Reply)
			out.Header.Set("Loopbus-Model-Seq", strconv.Itoa(seq))
			out.Data = []byte(frame)
			if err := nc.PublishMsg(out); err != nil {
				t.Error(err)
			}
		})
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

func frame(t *testing.T, f schemas.ModelFrame) string {
	t.Helper()
	data, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
