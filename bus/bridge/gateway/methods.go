package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

const historyLimit = 200

// methods are the methods that a client may call.
var methods map[string]func(p *peer, ctx context.Context, req *request) (any, error)

func init() { // breaks a cycle: hello-ok lists the methods
	methods = map[string]func(*peer, context.Context, *request) (any, error){
		"agent.wait":                    (*peer).agentWait,
		"health":                        (*peer).health,
		"models.list":                   (*peer).modelsList,
		"chat.send":                     (*peer).chatSend,
		"chat.history":                  (*peer).chatHistory,
		"chat.abort":                    (*peer).chatAbort,
		"sessions.list":                 (*peer).sessionsList,
		"sessions.subscribe":            (*peer).sessionsSubscribe,
		"sessions.unsubscribe":          (*peer).sessionsUnsubscribe,
		"sessions.messages.subscribe":   (*peer).subscribe,
		"sessions.messages.unsubscribe": (*peer).unsubscribe,
		"exec.approval.list":            (*peer).approvalList,
		"exec.approval.resolve":         (*peer).approvalResolve,
	}
}

func methodNames() []string { return slices.Sorted(maps.Keys(methods)) }

func (p *peer) call(ctx context.Context, req *request) (any, error) {
	method := methods[req.Method]
	if method == nil {
		return nil, &bridge.RequestError{Reason: "there is no method " + req.Method}
	}
	return method(p, ctx, req)
}

func (p *peer) health(context.Context, *request) (any, error) {
	return map[string]any{"ok": true, "ts": time.Now().UnixMilli()}, nil
}

type attachment struct {
	Type     string `json:"type"`
	MimeType string `json:"mimeType"`
	Content  string `json:"content"`
}

// chatSend sends a message. It subscribes the client to its session, which tells how the message ends.
func (p *peer) chatSend(ctx context.Context, req *request) (any, error) {
	var params struct {
		SessionKey     string       `json:"sessionKey"`
		Message        string       `json:"message"`
		IdempotencyKey string       `json:"idempotencyKey"`
		QueueMode      string       `json:"queueMode"`
		Attachments    []attachment `json:"attachments"`
	}
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	if params.SessionKey == "" || params.IdempotencyKey == "" {
		return nil, &bridge.RequestError{Reason: "sessionKey or idempotencyKey is missing"}
	}
	in := schemas.Input{Text: params.Message}
	for _, a := range params.Attachments {
		if !strings.HasPrefix(a.MimeType, "image/") || a.Content == "" {
			return nil, &bridge.RequestError{Reason: "an attachment is not an image with its content"}
		}
		in.Images = append(in.Images, schemas.Image{Data: a.Content, MimeType: a.MimeType})
	}
	if strings.TrimSpace(in.Text) == "" && len(in.Images) == 0 {
		return nil, &bridge.RequestError{Reason: "the message is empty"}
	}
	sub, err := p.subs.add(ctx, params.SessionKey)
	if err != nil {
		return nil, err
	}
	before := sub.at.Load()
	var run *client.Run
	key := params.SessionKey
	s, id := p.session(key), client.WithID(bridge.CommandID(params.IdempotencyKey))
	switch params.QueueMode {
	case "", "collect":
		run, err = s.Prompt(ctx, in, id)
	case "steer":
		run, err = s.Steer(ctx, in, id)
	case "followup":
		run, err = s.FollowUp(ctx, in, id)
	case "interrupt":
		run, err = s.Prompt(ctx, in, id, client.WhenBusy(schemas.BusyInterrupt))
	default:
		return nil, &bridge.RequestError{Reason: "there is no queueMode " + params.QueueMode}
	}
	if err != nil {
		return nil, err
	}
	p.runs.add(run)
	if before.known.Has(run.CommandID()) {
		req.then = func() {
			if err := p.again(ctx, key, run.CommandID(), before.seq); err != nil {
				p.broken(ctx, "session "+s.ID(), err)
			}
		}
	}
	return map[string]any{"runId": run.CommandID(), "status": "started"}, nil
}

func (p *peer) session(key string) *client.Session { return p.b.c.Session(bridge.SessionID(key)) }

// open folds a session's log, to its outline or to all of its state. The caller releases the follower's room.
func (p *peer) open(ctx context.Context, s *client.Session, outlined bool) (*bridge.Follower, error) {
	room := p.b.o.Views.Hold(s.ID())
	f := &bridge.Follower{Session: s.WithRoom(room.Load), Load: p.b.o.Load, Outlined: outlined, Room: room}
	err := f.Open(ctx)
	if err != nil {
		f.Room.Release()
	}
	return f, err
}

// chatHistory returns the newest part of a transcript, and the run in progress with its text so far.
func (p *peer) chatHistory(ctx context.Context, req *request) (any, error) {
	var params struct {
		SessionKey string `json:"sessionKey"`
		Limit      int    `json:"limit"`
		Offset     int    `json:"offset"`
	}
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	if params.SessionKey == "" || params.Limit < 0 || params.Offset < 0 {
		return nil, &bridge.RequestError{Reason: "sessionKey is missing, or limit or offset is below 0"}
	}
	f, err := p.open(ctx, p.session(params.SessionKey), false)
	if err != nil {
		return nil, err
	}
	req.view = f.Room
	if params.Limit == 0 {
		params.Limit = historyLimit
	}
	all := f.State.Messages
	to := max(len(all)-params.Offset, 0)
	from := max(to-min(params.Limit, schemas.MaxQueryLimit), 0)
	messages, bytes := []any{}, 0
	for _, e := range all[from:to] {
		bytes += schemas.Messages{e.Message.Message}.Size()
		if m := chatMessage(e); m != nil {
			messages = append(messages, m)
		}
	}
	history := map[string]any{"sessionKey": params.SessionKey, "sessionId": f.Session.ID(), "messages": messages,
		"hasMore": from > 0, "thinkingLevel": string(f.State.Config.ThinkingLevel)}
	if run := f.State.Run; run != nil {
		history["inFlightRun"] = map[string]any{"runId": runID(run.Command, run.ID)}
	}
	return history, req.view.Set(bytes) // the rest of the state is dropped
}

// runID returns the id by which clients know a run: the command that started it.
func runID(command, run string) string {
	if command != "" {
		return command
	}
	return run
}

// chatMessage returns a message in the form of chats, nil for one of an application-defined role.
func chatMessage(e loop.Entry) any {
	m := map[string]any{"id": e.ID}
	switch d := e.Message.Message.(type) {
	case *schemas.UserMessage:
		m["role"], m["content"], m["timestamp"] = "user", d.Content, d.Timestamp
	case *schemas.AssistantMessage:
		m["role"], m["content"], m["timestamp"], m["stopReason"] = "assistant", d.Content, d.Timestamp, d.StopReason
	case *schemas.ToolResultMessage:
		m["role"], m["content"], m["timestamp"], m["isError"] = "toolResult", d.Content, d.Timestamp, d.IsError
		m["toolCallId"], m["toolName"] = d.ToolCallID, d.ToolName
	default:
		return nil
	}
	return m
}
