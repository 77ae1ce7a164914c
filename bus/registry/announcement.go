package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// Checking the parameters of a tool may take ten milliseconds, and a worker may write its keys as often as it likes. So
// a worker has a rate of checks. It is sufficient for workers with some hundred tools: an announcement that is ignored
// is checked when it is renewed.
const (
	checksPerSecond = 10
	checksAtOnce    = 512
	maxLimited      = 1024 // workers whose rate is remembered
)

// maxAnnouncement is how many bytes an announcement of a tool may have, of which its parameters have at most 128 KiB.
// Every run of a session with the tool stores its definition.
const maxAnnouncement = 160 << 10

var errTooManyChecks = fmt.Errorf("its worker changes the parameters of its tools more than %d times a second",
	checksPerSecond)

// decoder decodes announcements of tools. Only one goroutine may use it.
type decoder struct {
	checks map[string]*rate.Limiter // by worker
}

func newDecoder() *decoder { return &decoder{checks: make(map[string]*rate.Limiter)} }

// decode decodes an entry of the bucket. before is the previous announcement of the key.
func (d *decoder) decode(e entry, before schemas.ToolAnnouncement) (schemas.ToolAnnouncement, error) {
	a, err := parseAnnouncement(e.value)
	if key := schemas.AnnouncementKey(a.Queue().Name(), a.Worker); err == nil && key != e.key {
		err = fmt.Errorf("its content belongs to key %q", key) // permissions allow a worker its own keys only
	}
	if err == nil {
		err = a.Queue().Check()
	}
	if err == nil && !bytes.Equal(a.Parameters, before.Parameters) { // a renewed announcement has the same
		err = d.check(a)
	}
	return a, err
}

// check checks the parameters of an announcement, unless its worker has had too many checked.
func (d *decoder) check(a schemas.ToolAnnouncement) error {
	worker := d.checks[a.Worker]
	if worker == nil {
		if len(d.checks) >= maxLimited {
			clear(d.checks)
		}
		worker = rate.NewLimiter(checksPerSecond, checksAtOnce)
		d.checks[a.Worker] = worker
	}
	if !worker.Allow() {
		return errTooManyChecks
	}
	return toolargs.Check(a.Parameters)
}

// parseAnnouncement parses an announcement. It must conform to its schema, because it becomes part of the logs of
// sessions. Only a time that cannot be parsed is tolerated, and omitted.
func parseAnnouncement(value []byte) (a schemas.ToolAnnouncement, err error) {
	if len(value) > maxAnnouncement {
		return a, fmt.Errorf("it has %d bytes, the limit is %d", len(value), maxAnnouncement)
	}
	if err := json.Unmarshal(value, &a); err != nil {
		return a, err
	}
	checked := a
	if since(a).IsZero() {
		a.Since, checked.Since = "", time.Time{}.Format(time.RFC3339)
	}
	data, err := schemas.Marshal(checked)
	if err == nil {
		err = schemas.ValidateToolAnnouncement(data)
	}
	return a, err
}
