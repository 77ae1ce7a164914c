package schemas_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/loopbus/loopbus/schemas"
)

// object is a YAML mapping that keeps the order of its members.
type object = yaml.MapSlice

// obj makes an object of alternating names and values.
func obj(members ...any) object {
	var o object
	for i := 0; i < len(members); i += 2 {
		o = append(o, yaml.MapItem{Key: members[i], Value: members[i+1]})
	}
	return o
}

func ref(to string) object { return obj("$ref", to) }

// asyncAPI builds the whole document.
func asyncAPI(t *testing.T) object {
	t.Helper()
	messages := apiMessages(t)
	return obj(
		"asyncapi", "3.0.0",
		"info", obj(
			"title", "loopbus",
			"version", schemas.Version,
			"description", apiDescription,
			"license", obj("name", "Apache-2.0", "url", "https://www.apache.org/licenses/LICENSE-2.0"),
		),
		"defaultContentType", schemas.ContentJSON,
		"servers", obj("local", obj(
			"host", "127.0.0.1:4222", "protocol", "nats",
			"description", "A NATS server with JetStream (tested with 2.15), or the one that is embedded in the runner.",
		)),
		"channels", apiChannels(messages),
		"operations", apiOperations(),
		"components", obj("messages", apiMessageObjects(t, messages), "schemas",
			append(headerSchemas(), modelHeaderSchemas()...)),
	)
}

const apiDescription = `loopbus runs AI agents on NATS JetStream. This document lists every subject and every message.

Publish a command to a session's inbox and watch the session's live subjects: that is all a client needs. A session
comes into being with its first command. All subjects begin with a prefix, agent unless a deployment chooses another.

Events are CloudEvents 1.0. Those that were stored together are one message, a commit: a batch in JSON. Updates are
CloudEvents in binary mode: the attributes are ce- headers, percent-encoded where they hold a space, a double quote, a
percent sign or anything outside printable ASCII, and the payload is the data as JSON. So are the events of logs that
earlier versions have written.
Commands may be CloudEvents (binary or structured), the bare JSON of their schema or, for prompt, steer and follow_up,
plain text. A payload that begins with { after white space is JSON; everything else is plain text.

Readers ignore members they do not know and refuse types they do not know.
`

// apiChannel is one subject.
type apiChannel struct {
	name, address, title, description string
	parameters                        []string
	carries                           func(apiMessage) bool
	action, operation, summary        string // what loopbus does there
}

func apiChannelList() []apiChannel {
	s := schemas.Subjects{}
	const session, call, queue = "{session}", "{call}", "{queue}"
	area := func(areas ...string) func(apiMessage) bool {
		return func(m apiMessage) bool { return slices.Contains(areas, m.area) }
	}
	return []apiChannel{
		{"commands", s.Command(session, "{kind}"), "A session's inbox",
			"The inbox of a session: commands, results of tool calls and timers, in one order. Stored in the stream " +
				schemas.StreamCommands +
				", a work queue; a request gets the stream's acknowledgement. A command's outcome is in the session's log, " +
				"under the command's id as causation id.",
			[]string{"session", "kind"}, area("commands", "command forms"), "receive", "receiveCommand",
			"Receive a command of a session."},
		{"log", s.Event(session), "A session's log",
			"Every durable event, in the stream " + schemas.StreamEvents +
				": in commits, and in logs of earlier versions one event a message, " +
				"in binary mode. Only the session's runner writes here, with the header " +
				"Nats-Expected-Last-Subject-Sequence. Read it with a consumer; to watch, subscribe to the live subjects.",
			[]string{"session"}, area("commits", "events"), "send", "appendCommit", "Append a commit to a session's log."},
		{"liveEvents", s.LiveEvent(session), "A session's events, live",
			"The server republishes every commit here once it is stored, as it is stored. The header Nats-Sequence names " +
				"its place in the stream " +
				schemas.StreamEvents + ".",
			[]string{"session"}, area("commits"), "send", "republishCommit", "Republish stored events to viewers."},
		{"liveUpdates", s.LiveUpdate(session), "A session's updates, live",
			"Deltas of a reply being streamed and partial results of tools. They are not part of the log; the stream " +
				schemas.StreamUpdates + " keeps them in memory for a short time, for viewers that connect late.",
			[]string{"session"}, area("updates"), "send", "publishUpdate", "Publish a delta to viewers."},
		{"toolCalls", s.Tool(queue, session, call), "Tool calls waiting for a worker",
			"A work queue for each tool, version and workspace in the stream " + schemas.StreamTools +
				". A worker pulls a call, executes it, publishes one tool_result command " +
				"to the session's inbox and only then acknowledges the call; until then it extends the acknowledgement's deadline.",
			[]string{"queue", "session", "call"}, area("tool calls"), "send", "requestToolCall",
			"Ask for a tool call to be executed."},
		{"cancel", s.Cancel(session, call), "Cancelled tool calls",
			"Tells the worker of a running call to stop. It is not stored: the durable truth is in the session's log. The " +
				"call's result " +
				"is ignored afterwards.",
			[]string{"session", "call"}, area("cancel"), "send", "cancelToolCall", "Ask for a running tool call to be stopped."},
		{"replies", s.Reply("{caller}", "{nonce}"), "Answers for callers that are no sessions",
			"Where the answer to a call goes whose request names this subject as replyTo. It is not stored.",
			[]string{"caller", "nonce"}, func(m apiMessage) bool { return m.key == "command.tool_result" }, "send",
			"answerCaller",
			"Answer a caller that has no session."},
		{"deadLetters", s.Dead("{stream}", session), "What could not be processed",
			"Messages that were refused or given up, in the stream " + schemas.StreamDead +
				", as they were and with the reason. The session is " +
				schemas.NoSession + " where the message named no legal one.",
			[]string{"stream", "session"}, area("dead"), "send", "buryMessage", "Store a dead letter, with the reason."},
		{"hooks", s.Hook(schemas.HookRef{Hook: "{hook}", Service: "{service}"}), "Hooks",
			"Request and reply of hook services, which see and change what the loop does. Without the last token it is the " +
				"service that listens at the hook itself. Runners ask only the services that their settings or the session's " +
				"profile name.",
			[]string{"hook", "service"}, area("hooks"), "send", "askHook", "Ask a service what to do."},
		{"profiles", "$KV." + schemas.BucketProfiles + ".{profile}", "Named agents",
			"The key-value bucket " + schemas.BucketProfiles + ": the configuration of the sessions that follow a profile.",
			[]string{"profile"}, area("profiles"), "receive", "receiveProfile", "Receive a profile."},
		{"resources", "$KV." + schemas.BucketResources + "." + schemas.ResourcesKey("{workspace}", "{worker}"),
			"What workspaces have for prompts",
			"The key-value bucket " + schemas.BucketResources + ": context files, skills and prompt templates in the " +
				"directory of a worker's tools. For sessions of no workspace the key is the worker alone. It expires " +
				"unless the worker renews it.",
			[]string{"workspace", "worker"}, area("resources"), "receive", "receiveResources",
			"Learn what a workspace has for prompts."},
		{"announcements", "$KV." + schemas.BucketTools + "." + schemas.AnnouncementKey(queue, "{worker}"),
			"The tools there are",
			"The key-value bucket " + schemas.BucketTools +
				": a worker's entry for each of its tools. It expires unless the worker renews it.",
			[]string{"queue", "worker"}, area("announcements"), "receive", "receiveAnnouncement",
			"Learn of a tool that a worker serves."},
	}
}

func apiParameter(name string) object {
	switch name {
	case "session":
		return obj("description", "The session: one token of 1 to 64 characters of A-Z a-z 0-9 _ and -.", "examples",
			[]string{"s1"})
	case "kind":
		kinds := schemas.CommandKinds()
		slices.Sort(kinds)
		return obj("description", "The kind of the command.", "enum", kinds)
	case "queue":
		return obj("description", "The tool's queue: its name, or <tool>=<version>, <tool>=<version>=<workspace>, "+
			"<tool>==<workspace>; each of them "+
			"a token of 1 to 64 characters of A-Z a-z 0-9 _ and -.", "examples", []string{"bash", "bash=2", "bash==host-1"})
	case "call":
		return obj("description", "The call's key: c and the sequence of its tool_execution_start.", "examples",
			[]string{"c12"})
	case "hook":
		return obj("description", "The hook.", "enum", schemas.HookNames())
	case "service":
		return obj("description", "The service's name: one token of 1 to 64 characters of A-Z a-z 0-9 _ and -.",
			"examples", []string{"policy"})
	case "profile":
		return obj("description", "The profile's name: one token of 1 to 64 characters of A-Z a-z 0-9 _ and -.",
			"examples", []string{"reviewer"})
	case "query":
		return queryParameter()
	case "modelCall", "provider":
		return modelParameter(name)
	case "caller":
		return obj("description", "The caller's name: one token of 1 to 64 characters of A-Z a-z 0-9 _ and -.",
			"examples", []string{"mcp-k3"})
	case "nonce":
		return obj("description", "The nonce of the request, which nobody can guess.", "examples",
			[]string{"ODCRXXJF6CZMN5QT"})
	case "stream":
		return obj("description", "The stream the message was stored in.", "examples",
			[]string{schemas.StreamCommands, schemas.StreamTools})
	default:
		return obj("description", "The worker's name: one token of 1 to 64 characters of A-Z a-z 0-9 _ and -.",
			"examples", []string{"w1"})
	}
}

func allChannels() []apiChannel {
	return slices.Concat(apiChannelList(), modelChannels(), queryChannels())
}

func apiChannels(messages []apiMessage) object {
	var channels object
	for _, c := range allChannels() {
		var carried, parameters object
		for _, m := range messages {
			if c.carries(m) {
				carried = append(carried, yaml.MapItem{Key: m.key, Value: ref("#/components/messages/" + m.key)})
			}
		}
		for _, p := range c.parameters {
			parameters = append(parameters, yaml.MapItem{Key: p, Value: apiParameter(p)})
		}
		channels = append(channels, yaml.MapItem{Key: c.name, Value: obj("address", c.at(), "title", c.title,
			"description", c.description, "parameters", parameters, "messages", carried)})
	}
	return channels
}

func apiOperations() object {
	var operations object
	for _, c := range allChannels() {
		o := obj("action", c.action, "channel", ref("#/channels/"+c.name), "summary", c.summary)
		if answers := apiReplies[c.name]; answers != "" {
			o = append(o, obj("reply", obj("channel", ref("#/channels/"+answers)))...)
		}
		operations = append(operations, yaml.MapItem{Key: c.operation, Value: o})
	}
	return operations
}

// apiMessage is one message. Where schema has a name, it describes the payload.
type apiMessage struct {
	area, key, title, summary string
	schema                    schemas.SchemaName
	headers                   string // of components.schemas
	ceType                    string
	contentType               string
	payload                   object
}

// apiMessages lists the messages of the schemas, and those that have none.
func apiMessages(t *testing.T) []apiMessage {
	t.Helper()
	var list []apiMessage
	headers := map[string]string{"commands": "commandHeaders", "events": "eventHeaders", "updates": "updateHeaders"}
	for _, name := range schemas.SchemaNames() {
		area := strings.TrimSuffix(strings.Replace(name.Area, "queries", "query", 1), "s")
		m := apiMessage{area: name.Area, key: area + "." + name.Name, title: name.Name,
			schema: name, headers: headers[name.Area], contentType: schemas.ContentJSON}
		switch {
		case m.headers != "":
			m.ceType = schemas.CloudEventType(name.Name)
		case m.placed():
		case name.Name == "tool_request":
			m.area = "tool calls"
		case name.Name == "tool_announcement":
			m.area = "announcements"
		case name.Area == "hooks" || name.Area == "profiles" || name.Area == "resources" ||
			name.Area == "queries":
		default:
			continue // a part of others
		}
		m.summary = schemaHead(t, name)["description"].(string)
		list = append(list, m)
	}
	list = append(list, modelForms()...)
	list = append(list, commitForm())
	return append(list,
		apiMessage{area: "command forms", key: "plain_text", title: "plain text", contentType: "text/plain",
			summary: "A prompt, steer or follow_up as UTF-8 text that is not blank and does not begin with {.",
			payload: obj("type", "string", "pattern", `\S`, "maxLength", schemas.MaxText, "examples",
				[]string{"list the files"})},
		apiMessage{area: "command forms", key: "structured_command", title: "structured CloudEvent",
			contentType: "application/cloudevents+json", payload: ref("#/components/schemas/structuredCommand"),
			summary: "Any command as a CloudEvent in structured mode: data is the command's JSON."},
		apiMessage{area: "cancel", key: "cancel", title: "cancel", payload: obj("description",
			"The SHA-256 of the nonce of the call's request, in hexadecimal digits, or - if it has none. A message without "+
				"payload is ignored."),
			summary: "Stop the call named in the subject."},
		apiMessage{area: "dead", key: "dead_letter", title: "dead letter", headers: "deadLetterHeaders",
			payload: obj("description", "The original payload, cut if it does not fit."),
			summary: "A message that could not be processed."},
	)
}

func apiMessageObjects(t *testing.T, messages []apiMessage) object {
	t.Helper()
	var objects object
	for _, m := range messages {
		o := obj("name", m.title, "title", m.title, "summary", m.summary)
		if m.contentType != "" {
			o = append(o, obj("contentType", m.contentType)...)
		}
		if m.headers != "" {
			o = append(o, obj("headers", m.headerSchema())...)
		}
		if m.payload != nil {
			o = append(o, obj("payload", m.payload)...)
		} else {
			o = append(o, obj("payload", obj("schemaFormat", "application/schema+json;version=draft-2020-12",
				"schema", ref(schemaPath(m.schema))), "examples", []object{obj("payload", apiExample(t, m.schema))})...)
		}
		objects = append(objects, yaml.MapItem{Key: m.key, Value: o})
	}
	return objects
}

func (m apiMessage) headerSchema() object {
	all := ref("#/components/schemas/" + m.headers)
	if m.ceType == "" {
		return all
	}
	return obj("allOf", []object{all, obj("properties", obj(
		schemas.HeaderType, obj("const", m.ceType),
		schemas.HeaderDataSchema, obj("const", schemas.DataSchema(m.schema.Area, m.schema.Name)),
	))})
}

// schemaPath is where a schema lies as seen from docs.
func schemaPath(name schemas.SchemaName) string {
	return "../schemas/jsonschema/" + name.Area + "/" + name.Name + "." + schemas.Version + ".json"
}

func schemaHead(t *testing.T, name schemas.SchemaName) map[string]any {
	t.Helper()
	raw, _ := schemas.Schema(name.Area, name.Name)
	var head map[string]any
	if err := json.Unmarshal(raw, &head); err != nil {
		t.Fatal(err)
	}
	return head
}

// apiExample is the schema's valid example, its members in the order of the file.
func apiExample(t *testing.T, name schemas.SchemaName) any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name.Area, name.Name, "valid.json"))
	if err != nil {
		t.Fatal(err)
	}
	var example object
	if err := yaml.UnmarshalWithOptions(raw, &example, yaml.UseOrderedMap()); err != nil {
		t.Fatalf("%v: %v", name, err)
	}
	return example
}
