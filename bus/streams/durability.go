package streams

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// Durability describes which failures an acknowledged message survives.
type Durability struct {
	// Text is a sentence for people.
	Text string
	// PageCache is true if recently acknowledged messages may exist only in the page cache of one machine.
	PageCache bool
}

// DurabilityOf returns the durability of acknowledged events, commands and tool calls. It cannot know how often the
// server syncs its disk; an embedded server does, see package embedded.
func DurabilityOf(ctx context.Context, c *bus.Conn) (Durability, error) {
	replicas := 0
	for _, name := range []string{schemas.StreamEvents, schemas.StreamCommands, schemas.StreamTools} {
		stream, err := c.JetStream().Stream(ctx, name)
		if err != nil {
			return Durability{}, fmt.Errorf("streams: durability of %s: %w", name, err)
		}
		if n := stream.CachedInfo().Config.Replicas; replicas == 0 || n < replicas {
			replicas = n
		}
	}
	return replicated(replicas), nil
}

// replicated returns the durability with servers whose sync policy is unknown.
func replicated(replicas int) Durability {
	const unseen = "unless they sync before they acknowledge (sync_always), which cannot be seen from here"
	if replicas > 1 {
		return Durability{Text: fmt.Sprintf("%d replicas, every acknowledged message is on %d servers: it survives the "+
			"loss of %d of them for good; if more lose power at once, what was acknowledged lately may be lost, %s",
			replicas, replicas/2+1, replicas/2, unseen)}
	}
	return Durability{
		Text: "one replica, every acknowledged message survives a crash of its server's process; a loss of power there " +
			"may lose what was acknowledged lately, " + unseen,
		PageCache: true,
	}
}
