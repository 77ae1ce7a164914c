package bridge

import "time"

// SetLimit changes how long a client may take to accept what is written.
func SetLimit(s *EventStream, d time.Duration) { s.limit = d }
