// Package priority has a delivery inherit the priority of another one that waits behind it (priority inheritance): an
// abort is urgent, and what came before it to its session has to be stored first.
package priority

import "context"

type key struct{}

// Inherit returns the context of a delivery whose priority is raised once raised is closed.
func Inherit(ctx context.Context, raised <-chan struct{}) context.Context {
	return context.WithValue(ctx, key{}, raised)
}

// Raised returns the channel that is closed once the priority of the delivery of ctx is raised, nil if it never is.
func Raised(ctx context.Context) <-chan struct{} {
	raised, _ := ctx.Value(key{}).(<-chan struct{})
	return raised
}

// IsRaised reports whether the priority of the delivery of ctx is raised now.
func IsRaised(ctx context.Context) bool {
	select {
	case <-Raised(ctx):
		return true
	default:
		return false
	}
}
