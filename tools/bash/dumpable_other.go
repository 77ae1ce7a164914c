//go:build !linux

package bash

// HideEnvironment does nothing here.
func HideEnvironment() {}
