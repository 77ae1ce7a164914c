package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Send stores a command in a session's inbox under an id; sent again with the same id it takes effect once. An error
// wraps [schemas.ErrSubject] if the session's name is not legal; after any other the command may have been stored.
func (c *Conn) Send(ctx context.Context, session, id string, data schemas.CommandData) error {
	err := schemas.CheckSession(session)
	if err == nil {
		err = c.send(ctx, session, id, data)
	}
	if err != nil {
		return fmt.Errorf("bus: send %s %s to session %s: %w", data.CommandKind(), id, session, err)
	}
	return nil
}

func (c *Conn) send(ctx context.Context, session, id string, data schemas.CommandData) error {
	raw, err := schemas.Marshal(data)
	if err != nil {
		return err
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	if members["id"], err = json.Marshal(id); err != nil {
		return err
	}
	msg := nats.NewMsg(c.subjects.Command(session, data.CommandKind()))
	if msg.Data, err = json.Marshal(members); err != nil {
		return err
	}
	msg.Header.Set(jetstream.MsgIDHeader, session+"/"+id)
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	_, err = c.js.PublishMsg(ctx, msg, natsio.UntilLeader())
	return err
}
