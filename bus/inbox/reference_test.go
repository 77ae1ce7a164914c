package inbox_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// An input was uploaded, and a replica that is behind does not have it.
func TestAnInputIsReadThoughAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	const bucket = "OBJ_" + schemas.BucketInputs
	c, _ := bustest.Behind(t, bucket)
	var h fakeHandler
	bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	text := strings.Repeat("x", 300<<10)
	sum := sha256.Sum256([]byte(text))
	name := hex.EncodeToString(sum[:])
	info := jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: name}, NUID: "n1", Size: uint64(len(text))}
	for piece := text; piece != ""; info.Chunks++ {
		n := min(len(piece), 128<<10)
		publish(t, c.JetStream(), &nats.Msg{Subject: "$O.agent_inputs.C.n1", Data: []byte(piece[:n])})
		piece = piece[n:]
	}
	entry, err := json.Marshal(info)
	if err != nil {
		t.Fatal(err)
	}
	publish(t, c.JetStream(), &nats.Msg{Data: entry,
		Subject: "$O.agent_inputs.M." + base64.URLEncoding.EncodeToString([]byte(name))})
	publish(t, c.JetStream(), &nats.Msg{Subject: "agent.cmd.s1.prompt", Header: nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"p1"}, "ce-source": {"/test"}, "ce-type": {"dev.loopbus.prompt.v1"},
		"content-type": {"text/plain"}, schemas.HeaderDataRef: {schemas.InputScheme + name}}})
	bustest.Eventually(t, "it is settled", func() bool { return bustest.Queued(t, c) == 0 })
	if r := h.rejections(); len(r) != 0 || h.total() != 1 {
		t.Errorf("%d delivered, rejected %+v", h.total(), r)
	}
}

func publish(t *testing.T, js jetstream.JetStream, m *nats.Msg) {
	t.Helper()
	if _, err := js.PublishMsg(bustest.Deadline(t), m); err != nil {
		t.Fatal(err)
	}
}
