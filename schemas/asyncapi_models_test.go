package schemas_test

import "github.com/loopbus/loopbus/schemas"

// apiReplies names the channel of the answers where a channel is asked.
var apiReplies = map[string]string{"modelRequests": "modelAnswers", "keyRequests": "keyAnswers",
	"sessionsQueries": "queryAnswers", "approvalsQueries": "queryAnswers", "sessionQueries": "queryAnswers"}

// at is the channel's address; nil where only the one who asks knows it.
func (c apiChannel) at() any {
	if c.address == "" {
		return nil
	}
	return c.address
}

// modelChannels are the subjects of models and keys. Nothing of them is stored.
func modelChannels() []apiChannel {
	s := schemas.Subjects{}
	area := func(want string) func(apiMessage) bool { return func(m apiMessage) bool { return m.area == want } }
	return []apiChannel{
		{"modelRequests", s.ModelRequest(), "Requests for models",
			"Runners with --serve-models take them from the queue group models, one each. A request needs a reply subject, " +
				"where the answer " +
				"comes message by message. The NATS server answers with status 503 if no process serves models.",
			nil, area("model requests"), "receive", "receiveModelRequest", "Take a request for a model."},
		{"modelCalls", s.ModelCall("{modelCall}"), "A model call that is served",
			"Further messages of the caller to the process that serves the call: its cancellation, its heartbeats, " +
				"or the parts of a request that was too big for one message.",
			[]string{"modelCall"}, area("model control"), "receive", "receiveModelControl",
			"Receive a message for a model call that is served."},
		{"modelAnswers", "", "The answer to a model request",
			"The reply subject of the request. A message without payload is a heartbeat, one every second; five seconds " +
				"without a message, or a " +
				"missing number, mean that the call is lost.",
			nil, area("model answers"), "send", "answerModelRequest", "Pass on what a model says."},
		{"keyRequests", s.Key("{provider}"), "Requests for keys",
			"A runner with --key-service asks for a provider's key before each request, unless it has one that has not " +
				"expired. The payload " +
				"is empty. A header Nats-Service-Error-Code in the answer refuses.",
			[]string{"provider"}, area("key requests"), "send", "requestKey", "Ask for a provider's key."},
		{"keyAnswers", "", "The answer to a request for a key",
			"The reply subject of the request. The answer has to come within ten seconds.",
			nil, area("key answers"), "receive", "receiveKey", "Take a provider's key."},
	}
}

// modelParameter describes the tokens of those subjects.
func modelParameter(name string) object {
	if name == "modelCall" {
		return obj("description", "The call, as the first message of the answer names it.", "examples",
			[]string{"3XKQ7WMZ5B2LD4"})
	}
	return obj("description", "The provider's id in the catalogue: one token of 1 to 64 characters out of A-Z a-z "+
		"0-9 _ and -.",
		"examples", []string{"anthropic"})
}

// placed says where a message of models or keys goes, if it is one.
func (m *apiMessage) placed() bool {
	switch m.schema.Name {
	case "model_request":
		m.area, m.headers = "model requests", "modelHeaders"
	case "model_frame":
		m.area, m.headers = "model answers", "modelHeaders"
	case "key_answer":
		m.area = "key answers"
	default:
		return false
	}
	return true
}

// modelForms are the messages that have no schema.
func modelForms() []apiMessage {
	return []apiMessage{
		{area: "model control", key: "model_cancel", title: "cancel", headers: "modelCancelHeaders",
			payload: obj("description", "Empty; ignored."),
			summary: "The model call named in the subject is to stop. It has no number."},
		{area: "model control", key: "model_caller_heartbeat", title: "heartbeat of the caller",
			headers: "modelHeartbeatHeaders",
			payload: obj("description", "Empty; ignored."),
			summary: "The caller of the model call named in the subject is there, every five seconds. It has no number."},
		{area: "model control", key: "model_request_part", title: "part of a request", headers: "modelHeaders",
			payload: obj("description", "Bytes of the request: put together in the order of their numbers they are its JSON."),
			summary: "A part of a request, from the second on."},
		{area: "model answers", key: "model_heartbeat", title: "heartbeat", headers: "modelHeaders",
			payload: obj("description", "Empty."), summary: "The call goes on."},
		{area: "key requests", key: "key_request", title: "request for a key",
			payload: obj("description", "Empty."), summary: "Request for the API key of the provider named in the subject."},
		{area: "key answers", key: "plain_key", title: "plain key", contentType: "text/plain", payload: obj("type", "string"),
			summary: "A key that is used once, without white space in it; empty if there is none."},
	}
}

// modelHeaderSchemas describes the headers of those messages.
func modelHeaderSchemas() object {
	return obj(
		"modelHeaders", obj("type", "object", "description", "Each direction of a call counts its messages.",
			"required", []string{schemas.HeaderModelSeq}, "properties", obj(
				schemas.HeaderModelSeq, text("Number of the message: 1, 2, 3 … without a gap.", "pattern", "^[1-9][0-9]*$"),
				schemas.HeaderModelMore, text("The payload goes on in the next message.", "const", "1"),
				schemas.HeaderModelToken, text("Of a request: only a cancellation or heartbeat with this value counts."),
				schemas.HeaderModelHeartbeat, text("Of a request: the caller sends heartbeats.", "const", "1"),
			)),
		"modelCancelHeaders", obj("type", "object", "description", "Cancels a call.",
			"required", []string{schemas.HeaderModelCancel}, "properties", obj(
				schemas.HeaderModelCancel, text("Cancels the call. The value is the token of the request, or 1."),
			)),
		"modelHeartbeatHeaders", obj("type", "object", "description", "A heartbeat of the caller.",
			"required", []string{schemas.HeaderModelHeartbeat}, "properties", obj(
				schemas.HeaderModelHeartbeat, text("The value is the token of the request, or 1."),
			)),
	)
}
