package streams

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// InboxName returns what distinguishes the stream AGENT_CMD from others of that name, elsewhere or before; "" if it was
// created by an earlier version. Ids of commands begin with it.
func InboxName(ctx context.Context, c *bus.Conn) (string, error) {
	s, err := c.JetStream().Stream(ctx, schemas.StreamCommands)
	if err != nil {
		return "", fmt.Errorf("streams: name of %s: %w", schemas.StreamCommands, err)
	}
	return s.CachedInfo().Config.Metadata[schemas.MetadataInbox], nil
}

// newInboxName returns a name for a new inbox, with 40 bits that are random.
func newInboxName() string { return schemas.TimedInbox + strings.ToLower(rand.Text()[:8]) }

// unused reports whether a stream has no message that anybody could have begun to process.
func unused(info *jetstream.StreamInfo) bool {
	return info.State.Msgs == 0 && info.State.Consumers == 0
}

// nameInbox gives an inbox of an earlier version its name, the same in every process. While commands are in it, or
// runners read it, their ids must not change.
func nameInbox(c *jetstream.StreamConfig, created time.Time) (changed bool) {
	name := c.Metadata[schemas.MetadataInbox]
	if strings.HasPrefix(name, schemas.TimedInbox) {
		return false
	}
	c.Metadata = maps.Clone(c.Metadata)
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[schemas.MetadataInbox] = schemas.TimedInbox + cmp.Or(name, strconv.FormatInt(created.UnixNano(), 36))
	if c.SubjectTransform != nil {
		marked := *c.SubjectTransform
		marked.Destination = strings.ReplaceAll(marked.Destination, wildcardBefore, wildcardTimed)
		c.SubjectTransform = &marked
	}
	return true
}

// The transform of an inbox with [schemas.TimedInbox] is written in another way that means the same. Earlier versions
// refuse such a stream when they start: they would give commands other ids.
const (
	wildcardBefore = "{{wildcard("
	wildcardTimed  = "{{Wildcard("
)
