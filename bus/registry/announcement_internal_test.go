package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// A worker that announces new parameters without end keeps no processor busy, and others are checked meanwhile.
func TestChecksOfAWorkerAreLimited(t *testing.T) {
	t.Parallel()
	d := newDecoder()
	announce := func(worker string, n int) error {
		a := schemas.ToolAnnouncement{Worker: worker, Since: "2026-01-01T00:00:00Z", ToolDefinition: schemas.ToolDefinition{
			Name: "bash", Parameters: json.RawMessage(fmt.Sprintf(`{"type":"object","title":"%d"}`, n))}}
		value, err := schemas.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.decode(entry{key: schemas.AnnouncementKey(a.Queue().Name(), worker), value: value},
			schemas.ToolAnnouncement{})
		return err
	}
	checked := 0
	for n := range 4 * checksAtOnce {
		if err := announce("w1", n); err == nil {
			checked++
		} else if !errors.Is(err, errTooManyChecks) {
			t.Fatal(err)
		}
	}
	if checked < checksAtOnce || checked > 2*checksAtOnce {
		t.Errorf("%d announcements of a worker are checked at once, want about %d", checked, checksAtOnce)
	}
	if err := announce("w2", 0); err != nil {
		t.Errorf("another worker: %v", err)
	}
}

// Each run stores the definitions of its tools, and its prompt has the resources of its workspace.
func TestLargeAnnouncementsAreRefused(t *testing.T) {
	t.Parallel()
	a := schemas.ToolAnnouncement{Worker: "w1", Since: "2026-01-01T00:00:00Z", ToolDefinition: schemas.ToolDefinition{
		Name: "bash", Parameters: json.RawMessage(`{"type":"object"}`)}}
	for n, want := range map[int]bool{30 << 10: true, 60 << 10: false} { // characters of four bytes
		a.Description = strings.Repeat("\U0001F600", n)
		value, err := schemas.Marshal(a)
		if err == nil {
			_, err = parseAnnouncement(value)
		}
		if (err == nil) != want {
			t.Errorf("a definition of %d bytes: %v", len(value), err)
		}
	}
	value := []byte(`{"worker":"w1","since":"2026-01-01T00:00:00Z"` + strings.Repeat(" ", maxResources) + `}`)
	_, err := decodeResources(entry{key: schemas.ResourcesKey("", "w1"), value: value}, schemas.Resources{})
	if err == nil {
		t.Errorf("resources of %d bytes are taken", len(value))
	}
}
