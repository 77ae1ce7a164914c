package web

import "time"

// SetFormTime sets the time to read a form.
func (s *Site) SetFormTime(d time.Duration) { s.formTime = d }
