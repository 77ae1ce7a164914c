package client

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/bus/shares"
)

// Keep sets how many live messages the client queues for a slow reader.
func (c *Client) Keep(messages int) { c.pendingLimit = messages }

// ReadAhead sets how many bytes all readers have in memory together that they have not yielded.
func (c *Client) ReadAhead(bytes int) { c.ahead = shares.New(bytes) }

// Idle reports whether no reader has anything in memory that it has not yielded, or loads a payload.
func (c *Client) Idle() bool { return c.ahead.Fits("", c.ahead.Limit()) && c.loading.Idle() }

// Load takes all turns of a session to load payloads.
func (c *Client) Load(ctx context.Context, session string) (end func()) {
	end, _ = c.loading.Wait(ctx, session, maxLoading)
	return end
}

// Check sets how often logs are checked for messages that did not arrive live.
func (c *Client) Check(every time.Duration) { c.checkEvery = every }
