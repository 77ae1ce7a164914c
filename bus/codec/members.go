package codec

import (
	"bytes"
	"encoding/json"
	"strings"
)

// maxMembers is how many members of a JSON object are looked at, and how many that of a CloudEvent may have:
// attributes, extensions and data. A client may send one for every four bytes.
const maxMembers = 256

// eachMember calls f for the members of a JSON object, in their order, up to the one after maxMembers. A name may come
// twice. It reports whether data is a JSON object.
func eachMember(data []byte, f func(name string, value json.RawMessage)) bool {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) || !json.Valid(data) {
		return false
	}
	d := json.NewDecoder(bytes.NewReader(data))
	_, _ = d.Token() // the brace; no error follows, because the text is valid
	for n := 0; n <= maxMembers && d.More(); n++ {
		name, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		f(name.(string), value)
	}
	return true
}

// answer is what shows that a JSON object is an answer of a stream, the JetStream API or the services framework, or a
// trace of a message.
type answer struct {
	api, stream, seq, other bool
	server, request, events bool // of a trace
}

func (a *answer) add(name string, value json.RawMessage) {
	switch name {
	case "type":
		var text string
		a.api = json.Unmarshal(value, &text) == nil && strings.HasPrefix(text, apiType)
	case "stream":
		a.stream = true
	case "seq":
		a.seq = true
	case "server":
		a.server = true
	case "request":
		a.request = true
	case "events":
		a.events = true
	}
	a.other = a.other || !publishAnswer[name]
}

func (a *answer) is() bool {
	return a.api || a.stream && a.seq && !a.other || a.server && a.request && a.events
}

// isAnswer reports whether data is a JSON object that is an answer.
func isAnswer(data []byte) bool {
	var a answer
	return eachMember(data, a.add) && a.is()
}

// publishAnswer contains the possible members of a stream's answer to a publish.
var publishAnswer = map[string]bool{"stream": true, "seq": true, "domain": true, "duplicate": true, "error": true,
	"val": true, "batch": true, "count": true}
