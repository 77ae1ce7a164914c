package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Tool is a tool as it is served in one version and workspace, that is, by one queue. Workers lists the ids of the
// workers that announce it, in order.
type Tool struct {
	schemas.ToolDefinition
	Workers []string
}

// Tools lists the tools that workers currently announce, ordered by name, version and workspace. If workers of a
// queue announce different definitions, Tools returns the newest, which is the one that models see. Invalid
// announcements are left out.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	var tools []Tool
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		tools, err = c.announced(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("client: list tools: %w", err)
	}
	return tools, nil
}

func (c *Client) announced(ctx context.Context) (tools []Tool, err error) {
	const bucket = "$KV." + schemas.BucketTools + "."
	var all []schemas.ToolAnnouncement
	newest := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy}
	for m, err := range c.readStored(ctx, "KV_"+schemas.BucketTools, bucket+">", newest) {
		if err != nil {
			return nil, err
		}
		queue, worker, _ := schemas.ParseAnnouncementKey(strings.TrimPrefix(m.subject, bucket))
		var a schemas.ToolAnnouncement
		if len(m.data) == 0 || schemas.ValidateToolAnnouncement(m.data) != nil || json.Unmarshal(m.data, &a) != nil ||
			a.Queue().Name() != queue || a.Worker != worker {
			continue // withdrawn, expired, or malformed
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b schemas.ToolAnnouncement) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), schemas.CompareToolVersions(a.Version, b.Version),
			cmp.Compare(a.Workspace, b.Workspace), cmp.Compare(b.Since, a.Since), cmp.Compare(a.Worker, b.Worker))
	})
	for _, a := range all {
		if n := len(tools) - 1; n < 0 || tools[n].Queue() != a.Queue() {
			tools = append(tools, Tool{ToolDefinition: a.ToolDefinition})
		}
		last := &tools[len(tools)-1]
		last.Workers = append(last.Workers, a.Worker)
	}
	for _, t := range tools {
		slices.Sort(t.Workers)
	}
	return tools, nil
}
