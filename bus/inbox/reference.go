package inbox

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// maxInputs limits the inputs by reference that are loaded and stored at once, each counted inputWeight times: for its
// bytes, for what is decoded from them, and for what is encoded for the log. The others wait for their turn.
const (
	maxInputs   = 128 << 20
	inputWeight = 3
	// maxDescriptions limits the descriptions of inputs that are read at once.
	maxDescriptions = 4
	// turnWait bounds how long an input waits for its turn at a time.
	turnWait = time.Second
)

// resolveInput replaces the reference of a command to an object of [schemas.BucketInputs] by the object's data, once it
// is its turn, which lasts until the caller calls done of the body. It returns header and data of any other command
// unchanged. Its error wraps a [*codec.RejectError] unless the object cannot be read now.
func (in *Inbox) resolveInput(ctx context.Context, kind schemas.CommandKind, b *body) (nats.Header, []byte, error) {
	header, data := b.header, b.data
	ref := schemas.DataRef(header)
	if ref == "" {
		return header, data, nil
	}
	reject := func(format string, args ...any) (nats.Header, []byte, error) {
		return nil, nil, &codec.RejectError{Code: schemas.RejectInvalid, Reason: fmt.Sprintf(format, args...)}
	}
	name, ok := strings.CutPrefix(ref, schemas.InputScheme)
	digest, _, _ := strings.Cut(name, "-") // the rest is random, so that nobody can guess the name
	sum, err := hex.DecodeString(digest)
	switch {
	case kind != schemas.CommandPrompt && kind != schemas.CommandSteer && kind != schemas.CommandFollowUp:
		return reject("dataref is for prompt, steer and follow_up")
	case !ok || err != nil || len(sum) != sha256.Size || len(name) > maxName:
		return reject("dataref is not %s and a SHA-256", schemas.InputScheme)
	case len(data) > 0:
		return reject("there are both data and a dataref")
	}
	data, err = in.object(ctx, name, b)
	switch got := sha256.Sum256(data); {
	case errors.Is(err, errNoInput):
		return reject("the input %s is not there: it was not uploaded, or has expired", ref)
	case errors.Is(err, errTooLarge):
		return nil, nil, &codec.RejectError{Code: schemas.RejectTooLarge,
			Reason: fmt.Sprintf("the input %s has more than %d bytes", ref, schemas.MaxInputBytes)}
	case errors.Is(err, errNotAnInput):
		return reject("the input %s cannot be used: %v", ref, err)
	case err != nil:
		return nil, nil, fmt.Errorf("inbox: read input %s: %w", ref, err)
	case string(got[:]) != string(sum):
		return reject("the input %s has another digest", ref)
	}
	header = maps.Clone(header)
	delete(header, schemas.HeaderDataRef)
	return header, data, nil
}

const (
	inputStream, inputPrefix = "OBJ_" + schemas.BucketInputs, "$O." + schemas.BucketInputs

	maxName = 2*sha256.Size + 65 // of an uploaded input: the digest, and up to 64 characters behind a hyphen
	// minPiece is the smallest size of a piece of an uploaded input, but for the last piece: each piece costs some work.
	// The object stores of NATS clients have pieces of 128 KiB.
	minPiece = 8 << 10
)

var (
	errNoInput    = errors.New("there is no such object")
	errTooLarge   = errors.New("the object is too large")
	errNotAnInput = errors.New("it is not an object that was uploaded whole")
	errWhole      = errors.New("the object is complete") // ends the scan of its pieces
)

// nuid matches the token that the subject of an object's pieces may have. It contains no wildcard.
var nuid = regexp.MustCompile(`^[0-9A-Za-z]{1,64}$`)

// object returns an uploaded input of at most [schemas.MaxInputBytes], once it is its turn. The client that uploads an
// object also writes its description, so object does not follow links to other objects or buckets: it reads pieces of
// this bucket only.
func (in *Inbox) object(ctx context.Context, name string, b *body) ([]byte, error) {
	info, err := in.objectInfo(ctx, name)
	if err != nil || info.Size == 0 {
		return nil, err
	}
	if b.endTurn, err = in.turn(ctx, "", inputWeight*int(info.Size)); err != nil {
		return nil, err
	}
	return in.pieces(ctx, info)
}

// turn waits for a turn of the inputs by reference. Its error wraps [schemas.ErrLater] after [turnWait]: the session
// has its memory already, which others wait for.
func (in *Inbox) turn(ctx context.Context, key string, units int) (end func(), err error) {
	limit, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	if end, err = in.inputs.Wait(limit, key, units); err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("no turn within %s: %w", turnWait, schemas.ErrLater)
	}
	return end, err
}

// objectInfo returns the description of an uploaded input, once it is its turn: its uploader has written it, and it may
// be as large as a message.
func (in *Inbox) objectInfo(ctx context.Context, name string) (info jetstream.ObjectInfo, err error) {
	release, err := in.turn(ctx, "description", maxInputs/maxDescriptions)
	if err != nil {
		return info, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, in.o.RejectTimeout)
	defer cancel()
	key := base64.URLEncoding.EncodeToString([]byte(name))
	m, found, err := natsio.Last(ctx, in.conn.JetStream(), inputStream, inputPrefix+".M."+key)
	if err != nil {
		return info, err
	}
	if !found {
		return info, errNoInput
	}
	switch err := json.Unmarshal(m.Data, &info); {
	case err != nil || !nuid.MatchString(info.NUID):
		return info, errNotAnInput
	case info.Size > schemas.MaxInputBytes:
		return info, errTooLarge
	}
	return info, nil
}

// pieces returns the data of an uploaded input. The server may take its time for all of it, and not for a part.
func (in *Inbox) pieces(ctx context.Context, info jetstream.ObjectInfo) (data []byte, err error) {
	subject := inputPrefix + ".C." + info.NUID
	_, err = natsio.ScanSubject(ctx, in.conn.JetStream(), inputStream, subject, 1, math.MaxUint64,
		func(piece natsio.Stored) error {
			data = append(data, piece.Data...)
			switch size := uint64(len(data)); {
			case size == info.Size:
				return errWhole
			case size > info.Size:
				return errNotAnInput
			case len(piece.Data) < minPiece:
				return fmt.Errorf("%w: a piece before the last one has less than %d bytes", errNotAnInput, minPiece)
			}
			return nil
		})
	switch {
	case errors.Is(err, errWhole):
		return data, nil
	case err == nil: // there are no more pieces
		err = errNotAnInput
	}
	return nil, err
}
