//go:build !linux

package bash

// HideEnvironment does nothing on this system.
func HideEnvironment() {}
