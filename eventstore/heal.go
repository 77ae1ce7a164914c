package eventstore

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// A server's answer on a subject of the object store, where somebody had it sent, lies over an object's entry or behind
// its chunks. What was put is still there: all that is newer is taken out.

// errOverlaid says of an object that its newest entry is none that anybody has put.
var errOverlaid = errors.New("the entry of the object is none")

// heal takes out what lies over an object, if this store may ([Options.Heal]). cause is why it cannot be read, which is
// returned where there is nothing to take out.
func (s *Store) heal(ctx context.Context, name string, cause error) error {
	if !s.o.Heal || !errors.Is(cause, errOverlaid) && !errors.Is(cause, errIncomplete) {
		return cause
	}
	stream, err := s.js.Stream(ctx, "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		return err
	}
	prefix := "$O." + schemas.BucketBlobs
	var info jetstream.ObjectInfo
	put, taken, err := s.uncover(ctx, stream, prefix+".M."+base64.URLEncoding.EncodeToString([]byte(name)),
		func(m *jetstream.RawStreamMsg) bool {
			info = jetstream.ObjectInfo{}
			return json.Unmarshal(m.Data, &info) == nil && info.NUID != "" && info.Name == name
		})
	if err != nil || put == 0 {
		return errors.Join(cause, err)
	}
	// An object's chunks are stored before its entry.
	_, more, err := s.uncover(ctx, stream, prefix+".C."+info.NUID,
		func(m *jetstream.RawStreamMsg) bool { return m.Sequence < put })
	if err != nil || taken+more == 0 {
		return errors.Join(cause, err)
	}
	s.o.Logger.Warn("messages that nobody has put taken out of the object store", "object", name, "messages", taken+more)
	return nil
}

// uncover deletes the newest messages of a subject up to one that is to stay, whose sequence it returns, 0 if none is,
// and how many it has deleted.
func (s *Store) uncover(ctx context.Context, stream jetstream.Stream, subject string,
	stays func(*jetstream.RawStreamMsg) bool) (sequence uint64, deleted int, err error) {
	for {
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, deleted, nil
		case err != nil:
			return 0, deleted, fmt.Errorf("look at %s: %w", subject, err)
		case stays(m):
			return m.Sequence, deleted, nil
		}
		if err := stream.DeleteMsg(ctx, m.Sequence); err != nil {
			return 0, deleted, fmt.Errorf("take message %d off %s: %w", m.Sequence, subject, err)
		}
		deleted++
	}
}
