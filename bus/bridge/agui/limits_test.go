package agui

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
)

// The tools of all clients together are bounded, because each has a queue. A client may replace its own.
func TestToolsOfAllClientsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFrontends(nil, slog.New(slog.DiscardHandler))
	for n := range maxAllTools / maxTools {
		f.all[strconv.Itoa(n)] = &frontend{count: maxTools}
	}
	if err := f.room(nil, 1); err == nil || !strings.Contains(err.Error(), "2048 tools") {
		t.Errorf("one more tool: %v", err)
	}
	if err := f.room(f.all["0"], maxTools); err != nil {
		t.Errorf("other tools of the same client: %v", err)
	}
	f.all["0"].count--
	if err := f.room(nil, 1); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	for n := range maxFrontends {
		f.all[strconv.Itoa(n)] = &frontend{count: 1}
	}
	if err := f.room(nil, 1); err == nil || !strings.Contains(err.Error(), "256 threads") {
		t.Errorf("one more thread: %v", err)
	}
	f.closed = true
	if err := f.room(f.all["0"], 1); err == nil {
		t.Error("a closed bridge has room")
	}
}
