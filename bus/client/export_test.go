package client

import "time"

// Keep sets how many live messages the client queues for a slow reader.
func (c *Client) Keep(messages int) { c.pendingLimit = messages }

// Check sets how often logs are checked for messages that did not arrive live.
func (c *Client) Check(every time.Duration) { c.checkEvery = every }
