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

// Checking the parameters of a tool may take a tenth of a second, and a worker may write its keys as often as it likes.
// So the checks of a worker have a share of the time: some seconds at once, and then a tenth. That is sufficient for
// thousands of ordinary tools, whose checks take less than a millisecond; an announcement that is ignored is checked
// when it is renewed.
const (
	checksAtOnce    = 5 * time.Second
	checksPerSecond = time.Second / 10
	maxLimited      = 1024 // workers whose share is remembered
)

// maxAnnouncement is how many bytes an announcement of a tool may have, of which its parameters have at most 128 KiB.
// Every run of a session with the tool stores its definition.
const maxAnnouncement = 160 << 10

var errTooManyChecks = fmt.Errorf("the checks of its worker's tools take more than %v at once and %v a second",
	checksAtOnce, checksPerSecond)

// decoder decodes announcements of tools. Only one goroutine may use it.
type decoder struct {
	checks          map[string]*rate.Limiter // microseconds, by worker
	checkParameters func(json.RawMessage) error
}

func newDecoder() *decoder { return &decoder{make(map[string]*rate.Limiter), toolargs.Check} }

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
		worker = rate.NewLimiter(rate.Limit(checksPerSecond.Microseconds()), int(checksAtOnce.Microseconds()))
		d.checks[a.Worker] = worker
	}
	if worker.Tokens() <= 0 {
		return errTooManyChecks
	}
	begun := time.Now()
	err := d.checkParameters(a.Parameters)
	worker.ReserveN(time.Now(), int(min(time.Since(begun), checksAtOnce).Microseconds()))
	return err
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
