package client_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// A replica that is behind does not have an event's payload yet. The log is not damaged.
func TestAPayloadThatAReplicaDoesNotHaveIsAwaited(t *testing.T) {
	t.Parallel()
	c, current := bustest.Behind(t, "OBJ_"+schemas.BucketBlobs)
	a := newAuthor(t, c, "s1")
	big := strings.Repeat("x", 300<<10)
	ref := a.payload(&schemas.ErrorEvent{Code: "big", Message: big})
	var commit schemas.Commit
	e := schemas.Event{Session: "s1", Seq: 1, Source: "/x", Data: &schemas.ErrorEvent{}}
	if err := commit.Add(&e, nil, ref); err != nil {
		t.Fatal(err)
	}
	a.store(commit.Header(a.hash), commit.Payload())
	asked, err := c.NATS().SubscribeSync("$JS.API.STREAM.INFO.OBJ_" + schemas.BucketBlobs)
	if err == nil {
		err = c.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		for e, err := range connect(t, c.NATS().ConnectedUrl()).Session("s1").History(bustest.Deadline(t), 1) {
			if err == nil && e.Data.(*schemas.ErrorEvent).Message != big {
				err = fmt.Errorf("got another payload")
			}
			got <- err
			return
		}
		got <- fmt.Errorf("got no event")
	}()
	for range 4 { // the reader asks again
		if _, err := asked.NextMsgWithContext(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	current()
	if err := bustest.Within(t, got); err != nil {
		t.Error(err)
	}
}
