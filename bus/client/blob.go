package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const blobScheme = "nats://" + schemas.BucketBlobs + "/"

// maxInline is the largest size of a command's data that is sent in the command itself.
const maxInline = 400 << 10

// pieceBytes is the chunk size of an uploaded input.
const pieceBytes = 128 << 10

// upload stores the data of an input as an object and returns its reference. A client that uploads may not read the
// bucket, or it could learn what others have uploaded. So upload publishes the object's messages itself, without the
// reads of nats.go's object store, under a name that nobody else can guess.
func (c *Client) upload(ctx context.Context, data []byte) (ref string, err error) {
	if len(data) > schemas.MaxInputBytes {
		return "", fmt.Errorf("the input has %d bytes, the limit is %d", len(data), schemas.MaxInputBytes)
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:]) + "-" + rand.Text()
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: pieceBytes}},
		Bucket:     schemas.BucketInputs, NUID: rand.Text(), Size: uint64(len(data)),
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]), ModTime: time.Now().UTC(),
	}
	for piece := range slices.Chunk(data, pieceBytes) {
		if err := c.putInput(ctx, "C."+info.NUID, piece); err != nil {
			return "", err
		}
		info.Chunks++
	}
	meta, err := json.Marshal(info)
	if err == nil {
		err = c.putInput(ctx, "M."+base64.URLEncoding.EncodeToString([]byte(name)), meta)
	}
	return schemas.InputScheme + name, err
}

// putInput stores one message of an object. Its id prevents a retry from storing it twice. Nobody can guess the id, and
// it says nothing about the object's subjects: a server tells the newest id of a stream to everybody who may publish to
// it.
func (c *Client) putInput(ctx context.Context, subject string, data []byte) error {
	const prefix = "$O." + schemas.BucketInputs + "."
	id := rand.Text()
	return c.retry(ctx, func(ctx context.Context) error {
		_, err := c.js.Publish(ctx, prefix+subject, data, jetstream.WithMsgID(id))
		return c.explain(err, prefix)
	})
}

// maxLoading limits the payloads that a client loads and decodes at once, of each session and of all together; the
// others wait for their turn. One counts twice: for its bytes, and for what is decoded from them.
const maxLoading = 64 << 20

// Room is asked for room before a payload of so many bytes is loaded from the object store. If it returns an error, the
// loop ends with it. release is called when the loop's caller is done with the event, or if it cannot be loaded.
type Room func(bytes int) (release func(), err error)

// WithRoom returns a handle of the session whose loops ask for room for large payloads. It is for programs that have
// many loops at once, each of which may wait for its own client while it has an event of many megabytes.
func (s *Session) WithRoom(room Room) *Session { return &Session{c: s.c, id: s.id, room: room} }

// payload is the data of one event in the object store, while it is used.
type payload struct {
	c       *Client
	session string
	room    Room     // may be nil
	turns   []func() // end the turn
	held    func()   // returns the room, or is nil
	err     error    // why the payload was not loaded
}

// decode decodes an event. Whoever has set room calls done once the event is not needed any more.
func (p *payload) decode(ctx context.Context, s schemas.StoredEvent) (schemas.Event, error) {
	defer p.endTurn()
	return s.Decode(func(ref string) (data []byte, err error) {
		data, p.err = p.load(ctx, ref)
		return data, p.err
	})
}

// load returns the payload from the object store, after verifying its digest. Only the requests have limits of time,
// and not the wait for a turn.
func (p *payload) load(ctx context.Context, ref string) (data []byte, err error) {
	c := p.c
	name, ok := strings.CutPrefix(ref, blobScheme)
	if !ok {
		return nil, fmt.Errorf("%w: the data reference %.100q does not start with %s", ErrDamaged, ref, blobScheme)
	}
	err = c.retry(ctx, func(one context.Context) error {
		store, err := c.js.ObjectStore(one, schemas.BucketBlobs)
		var info *jetstream.ObjectInfo
		if err == nil {
			info, err = store.GetInfo(one, name)
		}
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			err = c.missing(one, store, name)
		}
		if err == nil {
			err = p.begin(ctx, int(min(info.Size, math.MaxInt32)))
		}
		if err == nil {
			data, err = natsio.Object(ctx, c.js, info)
		}
		if err != nil {
			p.done()
		}
		if natsio.IsAny(err, jetstream.ErrObjectNotFound, jetstream.ErrBadObjectMeta) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return c.explain(err, c.api+"STREAM.INFO.OBJ_"+schemas.BucketBlobs, "$O."+schemas.BucketBlobs+".")
	})
	if err != nil {
		return nil, fmt.Errorf("fetch payload %s: %w", ref, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name[strings.LastIndexByte(name, '/')+1:] {
		return nil, fmt.Errorf("%w: the payload %s does not match its digest", ErrDamaged, ref)
	}
	return data, nil
}

// begin waits for the turn of a payload, first among those of its session, so that a session with many followers takes
// no more turns than others. Then it asks for room.
func (p *payload) begin(ctx context.Context, size int) error {
	const all = "" // no session has this id
	for _, of := range []string{p.session, all} {
		end, err := p.c.loading.Wait(ctx, of, 2*size)
		if err != nil {
			return err
		}
		p.turns = append(p.turns, end)
	}
	if p.room == nil {
		return nil
	}
	var err error
	p.held, err = p.room(size)
	return err
}

func (p *payload) endTurn() {
	for _, end := range p.turns {
		end()
	}
	p.turns = nil
}

// done returns all that the payload has taken. Calling it again does nothing.
func (p *payload) done() {
	p.endTurn()
	if p.held != nil {
		p.held()
		p.held = nil
	}
}

// missing returns the error of a payload that is not found. The replica that was asked may be behind, so missing asks
// the leader, by a request that readers may make.
func (c *Client) missing(ctx context.Context, store jetstream.ObjectStore, name string) error {
	info, err := store.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
	if err == nil && info.Deleted {
		return jetstream.ErrObjectNotFound
	}
	entry := "$O." + schemas.BucketBlobs + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
	stored, err := natsio.ConfirmedInfo(ctx, c.js, "OBJ_"+schemas.BucketBlobs, jetstream.WithSubjectFilter(entry))
	switch {
	case err != nil:
		return err
	case stored.State.Subjects[entry] > 0:
		return natsio.ErrBehind
	}
	return jetstream.ErrObjectNotFound
}
