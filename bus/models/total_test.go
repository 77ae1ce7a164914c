package models_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// replyBeforeText is the last event of a reply, up to its text.
const replyBeforeText = `{"event":{"type":"done","reason":"stop"},` +
	`"message":{"role":"assistant","content":[{"type":"text","text":"`

// TestAnswersOfAllCallsAreBounded: a server that begins large events and completes none must not fill the memory of the
// runner by calling as many sessions as it likes, nor keep the calls of other servers from their answers.
func TestAnswersOfAllCallsAreBounded(t *testing.T) {
	t.Parallel()
	const calls, parts, size, limit = 8, 16, 64 << 10, 1 << 20
	s, c := bustest.Small(t)
	server := bustest.Connect(t, s).NATS()
	client := models.NewClient(c, models.ClientOptions{MaxTotal: limit, IdleTimeout: 2 * time.Second})
	requests := make(chan *nats.Msg, calls+1)
	if _, err := server.ChanSubscribe(c.Subjects().ModelRequest(), requests); err != nil {
		t.Fatal(err)
	}
	if err := server.Flush(); err != nil {
		t.Fatal(err)
	}
	say := func(to *nats.Msg, seq int, more bool, data string) {
		m := &nats.Msg{Subject: to.Reply, Data: []byte(data), Header: nats.Header{
			schemas.HeaderModelSeq: {strconv.Itoa(seq)}}}
		if more {
			m.Header.Set(schemas.HeaderModelMore, "1")
		}
		if err := server.PublishMsg(m); err != nil {
			t.Error(err)
		}
	}
	text := strings.Repeat("x", size)
	ends := make(chan *schemas.AssistantMessage, calls)
	ask := func() *schemas.AssistantMessage {
		_, m := stream(t, client, schemas.ModelRequest{Model: onBus("m")})
		return m
	}
	var asking sync.WaitGroup
	var large []*nats.Msg
	for range calls {
		asking.Go(func() { ends <- ask() })
		large = append(large, <-requests)
	}
	for _, to := range large {
		for i := range parts {
			data := text
			if i == 0 {
				data = replyBeforeText + text
			}
			say(to, i+1, true, data)
		}
	}
	small := make(chan *schemas.AssistantMessage, 1)
	asking.Go(func() { small <- ask() })
	const end = `"}],"api":"a","provider":"p","model":"m","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,` +
		`"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop",` +
		`"timestamp":1}}`
	say(<-requests, 1, false, `{"event":{"type":"done","reason":"stop"},"message":{"role":"assistant","content":[`+
		`{"type":"text","text":"small`+end)
	if m := <-small; m.StopReason != schemas.StopStop {
		t.Errorf("a small answer is lost while large ones wait: %s, %q", m.StopReason, m.ErrorMessage)
	}
	for _, to := range large {
		say(to, parts+1, false, end)
	}
	asking.Wait()
	whole := 0
	for range calls {
		if m := <-ends; m.StopReason == schemas.StopStop {
			whole++
		}
	}
	if most := 2 * limit / (parts * size); whole > most {
		t.Errorf("%d answers of 1 MiB were held at once, at most %d have room", whole, most)
	}
	// All of it is free again.
	asking.Go(func() { ends <- ask() })
	to := <-requests
	say(to, 1, true, replyBeforeText+text)
	for i := range parts - 2 {
		say(to, i+2, true, text)
	}
	say(to, parts, false, end)
	if m := <-ends; m.StopReason != schemas.StopStop {
		t.Errorf("an answer below the limit ends with %s, %q", m.StopReason, m.ErrorMessage)
	}
}
