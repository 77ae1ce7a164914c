package models

import (
	"testing"

	"github.com/nats-io/nats.go"
)

func TestCallerOf(t *testing.T) {
	t.Parallel()
	forged := nats.Header{requestInfo: {`{"acc":"OTHER"}`}}
	for _, c := range []struct {
		reply  string
		header nats.Header
		want   string
	}{
		{"_INBOX_alice.abc.1", nil, "_INBOX_alice"},
		{"_INBOX_alice.def.2", forged, "_INBOX_alice"},
		{"_INBOX.abc.1", nil, "_INBOX.abc"},
		{"_INBOX.abc", forged, "_INBOX.abc"},
		{"_R_.abc.x", forged, "account OTHER"}, // the NATS server's own reply subject: so is the header
		{"_R_.abc.x", nats.Header{requestInfo: {`{"acc":"FORGED"}`, `{"acc":"OTHER"}`}}, "account OTHER"},
		{"_R_.abc.x", nil, "_R_"},
		{"_R_.abc.x", nats.Header{requestInfo: {`{"acc":`}}, "_R_"},
		{"", nil, ""},
	} {
		if got := callerOf(&nats.Msg{Reply: c.reply, Header: c.header}); got != c.want {
			t.Errorf("reply %q with %v: %q, want %q", c.reply, c.header, got, c.want)
		}
	}
}
