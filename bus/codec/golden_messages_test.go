package codec_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// goldenDigest is the digest of a request for approval.
const goldenDigest = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"

// wireMessages returns the messages in their present form. Every later version must be able to decode them.
func wireMessages(t *testing.T) []goldenMessage {
	messages := []goldenMessage{
		command("prompt", "plain text", nil, "list <the> files & wait"),
		command("prompt", "JSON", nil, `{"id":"p-1","text":"go","whenBusy":"interrupt","images":[{"type":"image",`+
			`"data":"aGk=","mimeType":"image/png"}],"unknown":1}`),
		command("prompt", "JSON with messages", nil,
			`{"id":"p-2","messages":[{"role":"user","content":"hi"},{"role":"note","text":"kept"}]}`),
		command("prompt", "JSON without an id, known by its Nats-Msg-Id", nats.Header{"Nats-Msg-Id": {"m-1"}},
			`{"text":"go"}`),
		command("prompt", "binary CloudEvent", cloudEvent("prompt"), `{"text":"go"}`),
		command("prompt", "structured CloudEvent", nats.Header{"Content-Type": {"application/cloudevents+json"}},
			`{"specversion":"1.0","id":"p-4","source":"/client/1","type":"dev.loopbus.prompt.v1",`+
				`"time":"2026-02-03T04:05:06.7Z","data":{"text":"go"}}`),
		command("steer", "plain text", nil, "left"),
		command("follow_up", "JSON", nil, `{"id":"fu-1","text":"and then"}`),
		command("continue", "empty object", nil, "{}"),
		command("abort", "empty, with its kind", nats.Header{"Loopbus-Command": {"abort"}}, ""),
		command("continue", "empty", nil, ""),
		command("abort", "empty", nil, ""),
		command("abort", "JSON", nil, `{"id":"a-1","reason":"enough","clearQueue":true}`),
		command("clear_queue", "JSON", nil, `{"queue":"steering"}`),
		command("cancel_input", "JSON", nil, `{"inputId":"fu-1"}`),
		command("set_model", "JSON", nil, `{"model":{"api":"a","provider":"acme","id":"m1"},"fallbacks":[{"id":"m2"}]}`),
		command("set_thinking_level", "JSON", nil, `{"thinkingLevel":"high"}`),
		command("set_tools", "all", nil, `{"tools":null}`),
		command("set_tools", "JSON", nil, `{"tools":["read"]}`),
		command("set_system_prompt", "JSON", nil, `{"systemPrompt":"Be brief."}`),
		command("set_modes", "JSON", nil,
			`{"steeringMode":"all","followUpMode":"one-at-a-time","toolExecution":"sequential"}`),
		command("set_workspace", "JSON", nil, `{"workspace":"host-1"}`),
		command("set_profile", "JSON", nil, `{"profile":"reviewer"}`),
		command("branch", "JSON", nil, `{"id":"b-1","session":"s0","seq":17}`),
		command("prompt", "JSON, to be expanded", nil, `{"id":"p-5","text":"/review main.go","expand":true}`),
		command("branch", "JSON of an entry", nil, `{"session":"s0","entryId":"m7","position":"before"}`),
		command("navigate", "JSON", nil, `{"targetId":"m4","summarize":true,"customInstructions":"be brief","label":"x"}`),
		command("label", "JSON", nil, `{"targetId":"m4","label":"here"}`),
		command("name", "JSON", nil, `{"name":"the files"}`),
		command("custom", "JSON", nil, `{"customType":"note","data":{"n":1}}`),
		command("custom_message", "JSON", nil, `{"customType":"note","content":"read this","display":true}`),
		command("compact", "JSON", nil, `{"customInstructions":"keep the names"}`),
		command("approve", "JSON", nil, `{"call":"c9","by":"ann","reason":"harmless"}`),
		command("approve", "JSON of a request", nil, `{"call":"c9","digest":"`+goldenDigest+`","args":{"command":"ls"}}`),
		command("deny", "JSON of a request", nil, `{"call":"c9","digest":"`+goldenDigest+`","reason":"no"}`),
		command("deny", "JSON", nil, `{"by":"bob"}`),
		command("deny", "JSON of a call", nil, `{"call":"c9","by":"bob","reason":"not on a Friday"}`),
		command("timer", "of a run's deadline", nil,
			`{"id":"timer-run_deadline-r2-1770091506000","name":"run_deadline","runId":"r2"}`),
		command("subagent_prompt", "JSON", nil, `{"id":"subagent/s0/c9/NONCE","text":"go","name":"a","tools":[],`+
			`"parent":{"session":"s0","call":"c9","nonce":"NONCE","depth":1,"maxDepth":2},"maxTokens":5}`),
		command("subagent_abort", "JSON", nil, `{"id":"subagent/s0/c9/NONCE/abort",`+
			`"parent":{"session":"s0","call":"c9","nonce":"NONCE","depth":1,"maxDepth":2}}`),
		command("subagent_result", "JSON", nil, `{"id":"subagent/s1/c9/NONCE/result","call":"c9","nonce":"NONCE",`+
			`"session":"s2","text":"done","isError":false,"reason":"no_tool_calls","usage":{"input":1,"output":2,`+
			`"cacheRead":0,"cacheWrite":0,"totalTokens":3,`+
			`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}`),
	}
	return append(messages, toolMessages(t)...)
}

func command(kind schemas.CommandKind, about string, header nats.Header, payload string) goldenMessage {
	subject := schemas.Subjects{}.Command("s1", kind)
	return goldenMessage{About: string(kind) + ", " + about, Subject: subject, Header: header, Payload: payload}
}

func cloudEvent(kind schemas.CommandKind) nats.Header {
	return nats.Header{
		schemas.HeaderSpecVersion: {"1.0"}, schemas.HeaderID: {"p-3"}, schemas.HeaderSource: {"/client/caf%C3%A9"},
		schemas.HeaderType: {schemas.CloudEventType(kind)}, schemas.HeaderTime: {"2026-02-03T04:05:06.7Z"},
		schemas.HeaderTraceParent: {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		"Content-Type":            {"application/json"},
	}
}

// toolMessages returns the messages between a runner and a worker, and their updates for watching clients.
func toolMessages(t *testing.T) []goldenMessage {
	encode := func(v any) string {
		raw, err := schemas.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	var subjects schemas.Subjects
	req := schemas.ToolRequest{
		Session: "s1", RunID: "r2", TurnID: "t3", Call: "c9", ToolCallID: "toolu_1|x", ToolName: "read", StartSeq: 9,
		Arguments: json.RawMessage(`{ "path":"<a>" }`), Effect: schemas.EffectReadOnly, TimeoutMs: 60_000,
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
	result := schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: "a & b"},
		schemas.Image{Data: "aGk=", MimeType: "image/png"}}, Details: json.RawMessage(`{"n": 1}`)}
	announcement := schemas.ToolAnnouncement{
		ToolDefinition: schemas.ToolDefinition{Name: "read", Label: "Read", Description: "reads a file",
			Parameters:    json.RawMessage(`{"type":"object"}`),
			ExecutionMode: schemas.ExecuteParallel, Effect: schemas.EffectReadOnly, TimeoutMs: 60_000,
			Scopes: []string{"files"}},
		Worker: "w1", Since: "2026-02-03T04:05:06Z",
	}
	versioned, announced := req, announcement
	versioned.Version, versioned.Workspace = "2", "host-1"
	yes, no := true, false
	announced.Version, announced.Workspace, announced.Effect, announced.MaxResultBytes = "2", "host-1", "", 65_536
	announced.Annotations = &schemas.ToolAnnotations{Title: "Read", ReadOnlyHint: &yes, DestructiveHint: &no,
		IdempotentHint: &yes, OpenWorldHint: &no}
	messages := []goldenMessage{
		{About: "tool request of a version and a workspace", Subject: subjects.Tool(versioned.Queue().Name(), "s1", "c9"),
			Payload: encode(versioned)},
		{About: "tool announcement with a version, a workspace and annotations", Payload: encode(announced)},
		{About: "tool request", Subject: subjects.Tool("read", "s1", "c9"), Payload: encode(req)},
		{About: "tool result", Subject: subjects.Command("s1", schemas.CommandToolResult),
			Payload: encode(req.Answer("w1", result, false, 1500*time.Millisecond))},
		{About: "tool result, an error without an id", Subject: subjects.Command("s1", schemas.CommandToolResult),
			Payload: `{"call":"c9","toolCallId":"toolu_1","toolName":"read","isError":true,` +
				`"result":{"content":[{"type":"text","text":"no such file"}]}}`},
		{About: "tool announcement", Payload: encode(announcement)},
	}
	updates := []schemas.UpdateData{
		&schemas.MessageUpdate{MessageID: "m7", AssistantMessageEvents: []schemas.StreamEvent{
			{Type: schemas.StreamTextStart}, {Type: schemas.StreamTextDelta, Delta: "a & "},
			{Type: schemas.StreamTextEnd, Content: "a & b"},
		}},
		&schemas.ToolExecutionUpdate{ToolCallID: "toolu_1", ToolName: "read", Call: "c9", PartialResult: result},
	}
	for _, data := range updates {
		header, payload, err := schemas.EncodeUpdate(schemas.Update{
			Session: "s1", Event: 7, N: 2, Time: goldenTime, Source: "/loopbus/runner/r1", RunID: "r2", TurnID: "t3", Data: data,
		})
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, goldenMessage{About: "update, " + string(data.EventType()),
			Subject: subjects.LiveUpdate("s1"), Header: header, Payload: string(payload)})
	}
	return messages
}
