package bus

// Links returns how many connections [Conn.Close] will close.
func Links(c *Conn) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.links)
}
