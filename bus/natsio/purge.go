package natsio

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// PurgeSubject purges the messages of one subject. Subjects that are read from a stream are purged with it: anybody who
// can have a server answer there may have made them. One with wildcards would purge other subjects too, so PurgeSubject
// refuses it.
func PurgeSubject(ctx context.Context, s jetstream.Stream, subject string, more ...jetstream.StreamPurgeOpt) error {
	if !Literal(subject) {
		return fmt.Errorf("purge %.200q of %s: the subject has wildcards and would match others", subject,
			s.CachedInfo().Config.Name)
	}
	return s.Purge(ctx, append(more, jetstream.WithPurgeSubject(subject))...)
}
