package embedded

import (
	"cmp"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/bus/streams"
)

// defaultSyncInterval is nats-server's default. After a loss of power, up to so much time of messages may be lost.
const defaultSyncInterval = 2 * time.Minute

// Durability returns the durability of messages that this server has acknowledged.
func (s *Server) Durability() streams.Durability {
	if s.opts.SyncAlways {
		return streams.Durability{
			Text: "one server, every acknowledged message is on disk: it survives a crash of the process " +
				"and a loss of power, as far as the disk keeps what it has synced",
		}
	}
	return streams.Durability{
		Text: fmt.Sprintf("one server, every acknowledged message survives a crash of the process; a loss of power or a "+
			"crash of the operating system may lose what was acknowledged in the %s before it (sync_always prevents that)",
			cmp.Or(s.opts.SyncInterval, defaultSyncInterval)),
		PageCache: true,
	}
}
