//go:build unix && !linux

package process

import "time"

// AdoptOrphans does nothing here: nobody can be the parent of others' orphans.
func AdoptOrphans() error { return nil }

// Left finds nothing here.
func Left(time.Duration) []string { return nil }
