package client

// Keep sets how many live messages the client queues for a slow reader.
func (c *Client) Keep(messages int) { c.pendingLimit = messages }
