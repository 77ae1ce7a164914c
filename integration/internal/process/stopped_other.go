//go:build unix && !linux

package process

// awaitStopped returns at once: there is no portable way to see that a process has stopped.
func awaitStopped(int, <-chan struct{}) {}
