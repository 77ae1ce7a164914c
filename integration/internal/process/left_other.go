//go:build unix && !linux

package process

import "time"

// AdoptOrphans does nothing: only Linux lets a process adopt orphans.
func AdoptOrphans() error { return nil }

// Left returns nothing: it is implemented on Linux only.
func Left(time.Duration) []string { return nil }
