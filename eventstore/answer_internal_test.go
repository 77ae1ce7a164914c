package eventstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

func TestParseAck(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data    string
		header  nats.Header
		want    uint64
		refused bool // because of another writer
		again   bool // worth another try
	}{
		{data: `{"stream":"AGENT_EVT","seq":12}`, want: 12},
		{data: `{"stream":"AGENT_EVT","seq": 12, "domain":"hub"}`, want: 12},
		{data: `{"stream":"AGENT_EVT","seq":18446744073709551615}`, want: 18446744073709551615},
		{data: `{"stream":"AGENT_EVT","seq":0}`},
		{data: `{"stream":"AGENT_EVT","seq":}`},
		{data: `{}`},
		{data: ``},
		{data: `+OK`},
		{header: nats.Header{"Status": {"503"}}, again: true},
		{data: `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"},"stream":"AGENT_EVT","seq":0}`,
			refused: true},
		{data: `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"},"stream":"AGENT_EVT","seq":0}`,
			refused: true},
		{data: `{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`,
			again: true},
		{data: `{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`},
	} {
		got, err := parseAck(&nats.Msg{Data: []byte(c.data), Header: c.header})
		if got != c.want || (err == nil) != (c.want > 0) || natsio.Outdated(err) != c.refused || err != nil &&
			unavailable(err) != c.again {
			t.Errorf("%q %v: %d, refused %v, unavailable %v, %v", c.data, c.header, got, natsio.Outdated(err),
				unavailable(err), err)
		}
	}
}

// No message on the subjects of a store makes it panic.
func FuzzDecoders(f *testing.F) {
	f.Add("s1/1", "dev.loopbus.turn_start.v1", "7", []byte(`{"turnIndex":1}`))
	f.Add("s1/0", "", "-1", []byte(`{"stream":"AGENT_EVT","seq":99999999999999999999}`))
	f.Add("", "x", "", []byte("{\"version\":1,\"gzip\":true}\n\x1f\x8b"))
	f.Add("", "", "v2 1-1", []byte(`[{"specversion":"1.0","id":"s1/1","source":"x",`+
		`"type":"dev.loopbus.turn_start.v1","data":{}}]`))
	f.Fuzz(func(t *testing.T, id, typ, seq string, data []byte) {
		header := nats.Header{
			schemas.HeaderID: {id}, schemas.HeaderType: {typ}, schemas.HeaderTime: {id}, jetstream.SequenceHeader: {seq},
			jetstream.ExpectedLastSubjSeqHeader: {seq}, "Status": {seq},
		}
		if strings.HasPrefix(seq, "v2 ") {
			header[schemas.HeaderCommit] = []string{seq}
			header[jetstream.SequenceHeader] = []string{"7"}
		}
		m := &nats.Msg{Header: header, Data: data}
		_, _ = parseAck(m)
		_ = status(m)
		if h, stored, err := decodeSnapshot(data); err == nil {
			_, _ = h.unpack(stored)
		}
		rec, err := recordOf(m)
		if err != nil {
			return
		}
		if _, last, err := rec.span("s1"); err == nil && !rec.isCommit() && !strings.HasPrefix(id, "s1/") {
			t.Errorf("id %q is event %d of s1", id, last)
		}
		rec.prev()
		infoOf("s1", rec)
		if _, err := rec.unpack(t.Context(), "s1", 0, 1, NewMemory(),
			func(schemas.Event, error) bool { return true }); err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("error %v does not say that the log is damaged", err)
		}
	})
}

func TestSnapshotCoding(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1 << 10, 1 << 20} {
		state := []byte(strings.Repeat("x", size))
		value, object, err := encodeSnapshot(snapshotHeader{Version: 2, Seq: 3, Stream: 4, Hash: "h"}, "s1", state, 512)
		if err != nil {
			t.Fatal(err)
		}
		h, stored, err := decodeSnapshot(value)
		if err != nil {
			t.Fatal(err)
		}
		if object != nil {
			stored = object
		}
		if (object != nil) != (h.Object != "") {
			t.Errorf("%d bytes: %d bytes for the object %q", size, len(object), h.Object)
		}
		got, err := h.unpack(stored)
		if err != nil || string(got) != string(state) ||
			fmt.Sprintf("%d %d %d %s", h.Version, h.Seq, h.Stream, h.Hash) != "2 3 4 h" {
			t.Errorf("%d bytes came back as %d with %+v: %v", size, len(got), h, err)
		}
	}
}
