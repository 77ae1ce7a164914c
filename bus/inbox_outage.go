package bus

import (
	"log/slog"
	"sync"
	"time"
)

// outage tells the log once that the commands cannot be pulled, however many partitions that concerns, and once that all
// of them can be again.
type outage struct {
	log *slog.Logger

	mu         sync.Mutex
	partitions int
	since      time.Time
}

// begins is called by a partition whose pull has failed, until then without failure.
func (o *outage) begins(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.partitions++; o.partitions == 1 {
		o.since = time.Now()
		o.log.Warn("pulling commands is interrupted, trying again", "err", err)
	}
}

// ends is called once by a partition for which begins was, when it has pulled again, or is left.
func (o *outage) ends() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.partitions--; o.partitions == 0 {
		o.log.Info("pulling commands goes on", "after", time.Since(o.since).Round(time.Millisecond))
	}
}
