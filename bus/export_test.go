package bus

import "github.com/nats-io/nats.go"

// Links returns how many connections [Conn.Close] will close.
func Links(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.links)
}

// HookConn returns the connection for the answers of a service.
func HookConn(h *Hooks, subject string) *nats.Conn { return h.service(subject).Opened() }
