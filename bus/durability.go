package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// defaultSyncInterval is the server's own: how much it may lose when the machine loses power.
const defaultSyncInterval = 2 * time.Minute

// Durability is what an acknowledgement is worth.
type Durability struct {
	// Text says in one sentence what survives what.
	Text string
	// PageCache says that one machine's page cache may be all there is of what was acknowledged lately.
	PageCache bool
}

// DurabilityOf says what an acknowledgement of the log, of commands and of tool calls is worth. own is the server of this
// process, if c is connected to that; how often another server syncs its disk cannot be seen from outside.
func DurabilityOf(ctx context.Context, c *Conn, own *Server) (Durability, error) {
	if own != nil {
		return own.durability(), nil
	}
	replicas := 0
	for _, name := range []string{schemas.StreamEvents, schemas.StreamCommands, schemas.StreamTools} {
		stream, err := c.js.Stream(ctx, name)
		if err != nil {
			return Durability{}, fmt.Errorf("bus: durability of %s: %w", name, err)
		}
		if n := stream.CachedInfo().Config.Replicas; replicas == 0 || n < replicas {
			replicas = n
		}
	}
	return replicated(replicas), nil
}

func (s *Server) durability() Durability {
	if s.opts.SyncAlways {
		return Durability{Text: "one server, every acknowledged message is on disk: it survives a crash of the process and a " +
			"loss of power, as far as the disk keeps what it has synced"}
	}
	return Durability{
		Text: fmt.Sprintf("one server, every acknowledged message survives a crash of the process; a loss of power or a crash of "+
			"the operating system may lose what was acknowledged in the %s before it (sync_always prevents that)",
			or(s.opts.SyncInterval, defaultSyncInterval)),
		PageCache: true,
	}
}

// replicated describes servers whose sync policy is not known.
func replicated(replicas int) Durability {
	const unseen = "unless they sync before they acknowledge (sync_always), which cannot be seen from here"
	if replicas > 1 {
		return Durability{Text: fmt.Sprintf("%d replicas, every acknowledged message is on %d servers: it survives the loss of "+
			"%d of them for good; if more lose power at once, what was acknowledged lately may be lost, %s",
			replicas, replicas/2+1, replicas/2, unseen)}
	}
	return Durability{
		Text: "one replica, every acknowledged message survives a crash of its server's process; a loss of power there may lose " +
			"what was acknowledged lately, " + unseen,
		PageCache: true,
	}
}
