package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

// referred returns the header and the data of a command whose data are an object of [schemas.BucketInputs]; of any
// other they are returned as they are. An error wraps a [*codec.RejectError] unless the object cannot be read now.
func (in *Inbox) referred(ctx context.Context, kind schemas.CommandKind, header nats.Header, data []byte,
) (nats.Header, []byte, error) {
	ref := schemas.DataRef(header)
	if ref == "" {
		return header, data, nil
	}
	refuse := func(format string, args ...any) (nats.Header, []byte, error) {
		return nil, nil, &codec.RejectError{Code: schemas.RejectInvalid, Reason: fmt.Sprintf(format, args...)}
	}
	name, ok := strings.CutPrefix(ref, schemas.InputScheme)
	sum, err := hex.DecodeString(name)
	switch {
	case kind != schemas.CommandPrompt && kind != schemas.CommandSteer && kind != schemas.CommandFollowUp:
		return refuse("dataref is for prompt, steer and follow_up")
	case !ok || err != nil || len(sum) != sha256.Size:
		return refuse("dataref is not %s and a SHA-256", schemas.InputScheme)
	case len(data) > 0:
		return refuse("there are both data and a dataref")
	}
	data, err = in.object(ctx, name)
	switch got := sha256.Sum256(data); {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return refuse("the input %s is not there: it was not uploaded, or has expired", ref)
	case errors.Is(err, errTooLarge):
		return nil, nil, &codec.RejectError{Code: schemas.RejectTooLarge,
			Reason: fmt.Sprintf("the input %s has more than %d bytes", ref, schemas.MaxInputBytes)}
	case errors.Is(err, jetstream.ErrDigestMismatch), err == nil && string(got[:]) != string(sum):
		return refuse("the input %s has another digest", ref)
	case err != nil:
		return nil, nil, fmt.Errorf("inbox: read input %s: %w", ref, err)
	}
	header = maps.Clone(header)
	delete(header, schemas.HeaderDataRef)
	return header, data, nil
}

var errTooLarge = errors.New("the object is too large")

// object returns an uploaded input, as far as inputs may be large.
func (in *Inbox) object(ctx context.Context, name string) ([]byte, error) {
	store, err := in.conn.JetStream().ObjectStore(ctx, schemas.BucketInputs)
	if err != nil {
		return nil, err
	}
	object, err := store.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer object.Close()
	data, err := io.ReadAll(io.LimitReader(object, schemas.MaxInputBytes+1))
	if err == nil && len(data) > schemas.MaxInputBytes {
		err = errTooLarge
	}
	return data, err
}
