package client

// Keep has the client keep so many messages of a live feed for a slow reader.
func (c *Client) Keep(messages int) { c.kept = messages }
