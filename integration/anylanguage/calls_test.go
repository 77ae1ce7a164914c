//go:build unix

package anylanguage_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// served is a running example.
type served struct {
	*world
	tool    string
	worker  string
	process *process.Process
}

// serve starts an example and returns once it has announced its tool, with a time to live.
func (w *world) serve(tool, path string, args ...string) *served {
	w.t.Helper()
	e := &served{world: w, tool: tool, process: w.start(tool, path, args...)}
	system.Eventually(w.t, "announcement of "+tool, func() bool {
		select {
		case <-e.process.Done():
			w.t.Fatalf("%s ended: %s", tool, e.process.Ended())
		default:
		}
		return len(e.announced()) == 1
	})
	entry := e.announced()[0]
	if ttl := entry.Header.Get(jetstream.MsgTTLHeader); ttl != "30s" {
		w.t.Errorf("the TTL of the announcement is %q", ttl)
	}
	var a schemas.ToolAnnouncement
	if err := json.Unmarshal(entry.Data, &a); err != nil {
		w.t.Fatal(err)
	}
	if err := schemas.ValidateToolAnnouncement(entry.Data); err != nil {
		w.t.Error(err)
	}
	e.worker = a.Worker
	return e
}

// announced returns the stored announcements of the tool that are not withdrawn.
func (e *served) announced() (entries []*jetstream.RawStreamMsg) {
	e.t.Helper()
	stream, err := e.conn.JetStream().Stream(e.t.Context(), "KV_"+schemas.BucketTools)
	if err != nil {
		e.t.Fatal(err)
	}
	subjects := "$KV." + schemas.BucketTools + "." + e.tool + ".*"
	for seq := uint64(1); ; {
		msg, err := stream.GetMsg(e.t.Context(), seq, jetstream.WithGetMsgSubject(subjects))
		if err != nil {
			return entries
		}
		if len(msg.Data) > 0 {
			entries = append(entries, msg)
		}
		seq = msg.Sequence + 1
	}
}

// called makes the model call the tool, and checks events, updates and result.
func (e *served) called(args string, result, update *regexp.Regexp) {
	e.t.Helper()
	session := e.session()
	updates := e.updates(session)
	e.say(session, "call "+e.tool+" "+args)
	log := e.until(session, 1)
	end := system.DataOf[*schemas.ToolExecutionEnd](log)
	if len(end) != 1 || end[0].IsError || end[0].Worker != e.worker ||
		!result.MatchString(end[0].Result.Content.JoinText()) {
		e.t.Fatalf("%s %s: %s", e.tool, args, describe(end))
	}
	if reasons := system.Reasons(log); !slices.Equal(reasons, []schemas.TerminationReason{schemas.EndNoToolCalls}) {
		e.t.Errorf("the run ended with %v", reasons)
	}
	e.settled()
	if err := e.conn.NATS().Flush(); err != nil { // everything that was published before the answer has arrived then
		e.t.Fatal(err)
	}
	e.checkUpdates(drain(updates), end[0].Call, update)
}

// checkUpdates checks the tool's updates against the protocol: there is at least one, and their numbers ascend from 1.
func (e *served) checkUpdates(all []*schemas.Update, call schemas.CallKey, want *regexp.Regexp) {
	e.t.Helper()
	n := uint64(0)
	for _, u := range all {
		data, ok := u.Data.(*schemas.ToolExecutionUpdate)
		if !ok {
			continue
		}
		n++
		if u.N != n || schemas.NewCallKey(u.Event) != call || data.Call != call || data.ToolName != e.tool {
			e.t.Errorf("update %d of call %s: %+v, %+v", n, call, u, data)
		}
		if n == 1 && len(data.PartialResult.Content) == 0 {
			continue // the call has started and has no partial result yet
		}
		if text := data.PartialResult.Content.JoinText(); !want.MatchString(text) {
			e.t.Errorf("update has the text %q", text)
		}
		if !strings.HasSuffix(u.Source, "/"+e.worker) {
			e.t.Errorf("update is from %s", u.Source)
		}
	}
	if n == 0 {
		e.t.Error("no updates")
	}
}

// calledTwiceInOneReply makes the model call the tool twice in one reply, and checks both results.
func (e *served) calledTwiceInOneReply(args, want string) {
	e.t.Helper()
	session := e.session()
	line := "call " + e.tool + " " + args
	e.say(session, line+"\n"+line)
	end := system.DataOf[*schemas.ToolExecutionEnd](e.until(session, 1))
	if len(end) != 2 || end[0].Call == end[1].Call {
		e.t.Fatalf("results %s", describe(end))
	}
	for _, d := range end {
		if d.IsError || d.Result.Content.JoinText() != want {
			e.t.Errorf("result %s", describe(end))
		}
	}
	e.settled()
}

// refused checks that the runner refuses arguments that do not match the announced schema.
func (e *served) refused(args, why string) {
	e.t.Helper()
	session := e.session()
	e.say(session, "call "+e.tool+" "+args)
	end := system.DataOf[*schemas.ToolExecutionEnd](e.until(session, 1))
	if len(end) != 1 || !end[0].IsError || !strings.Contains(end[0].Result.Content.JoinText(), why) {
		e.t.Errorf("result %s, want %q", describe(end), why)
	}
}

// cancel cancels a call, after messages that are no cancellations of it.
func (e *served) cancel(session string, call schemas.CallKey) {
	e.t.Helper()
	started := system.DataOf[*schemas.ToolExecutionStart](bustest.Until(e.t, bustest.Client(e.t, e.conn).Session(session),
		"the call", bustest.Nth(1, schemas.EventToolExecutionStart)))
	for _, payload := range []string{"", "-", schemas.Cancellation(started[len(started)-1].Nonce)} {
		if err := e.conn.NATS().Publish(e.conn.Subjects().Cancel(session, string(call)), []byte(payload)); err != nil {
			e.t.Fatal(err)
		}
	}
}

// cancelled aborts a call once it is running.
func (e *served) cancelled(args string) {
	e.t.Helper()
	session := e.session()
	updates := e.updates(session)
	e.say(session, "call "+e.tool+" "+args)
	for {
		u := decode(within(e.t, updates))
		if data, ok := u.Data.(*schemas.ToolExecutionUpdate); ok {
			e.cancel(session, data.Call)
			break
		}
	}
	end := system.DataOf[*schemas.ToolExecutionEnd](e.until(session, 1))
	if len(end) != 1 || !end[0].IsError || end[0].Worker != e.worker ||
		end[0].Result.Content.JoinText() != "Operation aborted" {
		e.t.Errorf("result %s", describe(end))
	}
	e.settled()
}

// malformed stores an invalid request, and checks that the answer says so.
func (e *served) malformed() {
	e.t.Helper()
	subjects := e.conn.Subjects()
	results, err := e.conn.NATS().SubscribeSync(subjects.Command("bad", schemas.CommandToolResult))
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = results.Unsubscribe() }() // fails only on a closed connection
	if _, err := e.conn.JetStream().Publish(e.t.Context(), subjects.Tool(e.tool, "bad", "c1"),
		[]byte("not JSON"), jetstream.WithMsgID("bad/c1/NONCE")); err != nil {
		e.t.Fatal(err)
	}
	msg, err := results.NextMsg(system.Deadline)
	if err != nil {
		e.t.Fatal(err)
	}
	_, data, err := schemas.ParseCommand(schemas.CommandToolResult, msg.Data)
	if err != nil {
		e.t.Fatalf("%v: %s", err, msg.Data)
	}
	if r := data.(*schemas.ToolResponse); r.Call != "c1" || !r.IsError || r.Nonce != "NONCE" ||
		!strings.HasPrefix(r.Result.Content.JoinText(), "The request of this call was malformed") {
		e.t.Errorf("result %s", msg.Data)
	}
	e.settled()
}

// stopped stops the example, and checks that it withdraws its announcement.
func (e *served) stopped() {
	e.t.Helper()
	if err := e.process.Terminate(); err != nil {
		e.t.Fatal(err)
	}
	select {
	case <-e.process.Done():
	case <-time.After(system.Deadline):
		e.t.Fatalf("%s did not end", e.tool)
	}
	if ended := e.process.Ended(); ended != "exit status 0" {
		e.t.Errorf("%s ended with %s", e.tool, ended)
	}
	if left := e.announced(); len(left) > 0 {
		e.t.Errorf("announcement is left: %s", left[0].Data)
	}
}

// until returns a session's log up to the end of its nth run.
func (e *served) until(session string, runs int) (log []schemas.Event) {
	e.t.Helper()
	return bustest.Until(e.t, bustest.Client(e.t, e.conn).Session(session), "the end of the run", system.Ends(runs))
}

// settled waits until every call is acknowledged.
func (e *served) settled() {
	e.t.Helper()
	system.Eventually(e.t, "every call is acknowledged", func() bool {
		stream, err := e.conn.JetStream().Stream(e.t.Context(), schemas.StreamTools)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}

func describe(end []*schemas.ToolExecutionEnd) string {
	raw, err := json.Marshal(end)
	return fmt.Sprint(string(raw), " ", err)
}
