package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// A worker that announces new parameters without end, or costly ones, keeps no processor busy, and others are checked
// meanwhile.
func TestChecksOfAWorkerAreLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const each = checksAtOnce / 50
		d, n := newDecoder(), 0
		d.checkParameters = func(json.RawMessage) error { time.Sleep(each); return nil }
		announce := func(worker string) error {
			n++
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
		for ; checked < 100; checked++ {
			if err := announce("w1"); errors.Is(err, errTooManyChecks) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if checked < 50 || checked > 60 {
			t.Errorf("%d announcements of a worker are checked at once, want some fifty", checked)
		}
		if err := announce("w2"); err != nil {
			t.Errorf("another worker: %v", err)
		}
		time.Sleep(2 * each * time.Duration(time.Second/checksPerSecond))
		if err := announce("w1"); err != nil {
			t.Errorf("later: %v", err)
		}
	})
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
