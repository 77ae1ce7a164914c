package client

import (
	"time"

	"github.com/loopbus/loopbus/bus/shares"
)

// Keep sets how many live messages the client queues for a slow reader.
func (c *Client) Keep(messages int) { c.pendingLimit = messages }

// ReadAhead sets how many bytes all readers have in memory together that they have not yielded.
func (c *Client) ReadAhead(bytes int) { c.ahead = shares.New(bytes) }

// Idle reports whether no reader has anything in memory that it has not yielded.
func (c *Client) Idle() bool { return c.ahead.Fits("", c.ahead.Limit()) }

// Check sets how often logs are checked for messages that did not arrive live.
func (c *Client) Check(every time.Duration) { c.checkEvery = every }
