package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

func TestResultsThatDoNotFit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := strings.Repeat("é", 30_000)
	r.serve(1, worker.Options{MaxResultBytes: 32 << 10, Tools: []tools.Tool{newTool("big", "",
		func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			call.Update(schemas.TextResult(strings.Repeat("x", 1<<20))) // dropped, and no harm done
			var args struct{ Kind string }
			_ = json.Unmarshal(call.Arguments, &args)
			result := schemas.TextResult("short")
			switch args.Kind {
			case "image":
				result.Content = append(result.Content, schemas.Image{Data: strings.Repeat("A", 40<<10), MimeType: "image/png"})
			case "details":
				result.Details = json.RawMessage(`"` + strings.Repeat("d", 40<<10) + `"`)
			case "text":
				result = schemas.TextResult(long)
			case "escapes":
				result = schemas.TextResult(strings.Repeat("\x00", 20<<10))
			case "blocks":
				for range 2_000 {
					result.Content = append(result.Content, schemas.Text{Text: "block"})
				}
			}
			return result, nil
		})}})
	for kind, want := range map[string]string{
		"image":   "short\n[Image omitted: its 40960 bytes do not fit in a message of the bus.]",
		"details": "short",
		"blocks":  "[The result was left out: it does not fit in a message of the bus.]",
	} {
		r.call("big", `{"Kind":"`+kind+`"}`)
		r.wantText(want, false)
	}
	for _, kind := range []string{"text", "escapes"} {
		r.call("big", `{"Kind":"`+kind+`"}`)
		got, msg := r.answer()
		text := got.Result.Content.JoinText()
		if got.IsError || len(msg.Data) > 32<<10 || len(msg.Data) < 8<<10 ||
			!strings.Contains(text, " bytes left out: the result does not fit") {
			t.Errorf("%s: %v, %d bytes", kind, got.IsError, len(msg.Data))
		}
		if kind == "text" && (text[:2] != "é" || text[len(text)-2:] != "é") {
			t.Errorf("neither end is kept: %.20q", text)
		}
	}
	r.settled()
}

// A result waits for the inbox, and the call is not acknowledged before it is stored.
func TestResultIsStoredBeforeTheCallIsSettled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, tap := range r.taps { // with nobody there, a publish fails at once
		if err := tap.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	ran, log := make(chan struct{}, 8), make(lines, 64)
	r.serve(1, worker.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Tools: []tools.Tool{newTool("echo", "",
		func(_ context.Context, _ tools.Call) (schemas.ToolResult, error) {
			ran <- struct{}{}
			return schemas.TextResult("ok"), nil
		})}})
	if err := r.conn.JetStream().DeleteStream(r.ctx(), schemas.StreamCommands); err != nil {
		t.Fatal(err)
	}
	r.call("echo", `{}`)
	bustest.Within(t, ran)
	for tried := 0; tried < 2; {
		if strings.Contains(bustest.Within(t, log), "result not stored, trying again") {
			tried++
		}
	}
	if r.waiting() != 1 {
		t.Error("the call was acknowledged before its result was stored")
	}
	if err := streams.Setup(r.ctx(), r.conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	r.settled()
	stream, err := r.conn.JetStream().Stream(r.ctx(), schemas.StreamCommands)
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("%d results stored, %v", stream.CachedInfo().State.Msgs, err)
	}
	if len(ran) != 0 {
		t.Error("the tool ran again")
	}
}

// lines is a log that can be waited for.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

func TestUpdatesAreJoined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(1, worker.Options{UpdateEvery: time.Hour, Tools: []tools.Tool{newTool("chatty", "",
		func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			for _, text := range []string{"first", "second", "third", "last"} {
				call.Update(schemas.TextResult(text))
			}
			return schemas.TextResult("done"), nil
		})}})
	r.call("chatty", `{}`)
	r.wantText("done", false)
	for n, want := range []string{"first", "last"} {
		msg := bustest.Within(t, r.updates)
		u, err := schemas.DecodeUpdate(msg.Header, msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Data.(*schemas.ToolExecutionUpdate).PartialResult.Content.JoinText(); got != want || u.N != uint64(n+1) {
			t.Errorf("update %d is %q, want %q", u.N, got, want)
		}
	}
	if len(r.updates) != 0 {
		t.Errorf("%d more updates", len(r.updates))
	}
}
