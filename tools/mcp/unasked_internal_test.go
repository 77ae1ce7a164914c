package mcp

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/loopbus/loopbus/schemas"
)

// Of what a server says by itself, the SDK gets no more than a few bytes of what it has to know.
func TestWhatIsLeftOfWhatAServerSays(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 2000)
	var p progress
	told := ""
	defer p.expect("1", func(r schemas.ToolResult) { told += r.Content.JoinText() })()
	u := &unasked{heard: func() {}, progress: &p}
	for _, c := range []struct{ says, left string }{
		{`"method":"notifications/progress","params":{"progressToken":"1","progress":1,"message":"a","_meta":{"a":[1]}}`, ""},
		{`"method":"notifications/progress","params":{"progressToken":"2","progress":1}`, ""},
		{`"method":"notifications/progress","params":{"progressToken":1,"progress":1}`, ""},
		{`"method":"notifications/progress","params":[1]`, ""},
		{`"method":"notifications/message","params":{"data":[1]}`, ""},
		{`"method":"notifications/` + "\\u0074" + `ools/list_changed","params":{"_meta":{"a":[1]}}`,
			`"method":"notifications/tools/list_changed","params":{}`},
		{`"method":"notifications/tools/list_changed"`, ""}, // the SDK has one
		{`"id":1,"method":"sampling/createMessage","params":{"messages":[1]}`,
			`"id":1,"method":"sampling/createMessage","params":{}`},
		{`"id":1,"result":{"a":[1]}`, `"id":1,"result":{"a":[1]}`},
		{`"id":"` + large + `","method":"ping"`, "error"},
		{`"id":1,"method":"` + large + `"`, "error"},
	} {
		m, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0",` + c.says + `}`))
		if err != nil {
			t.Fatal(err)
		}
		left := "error"
		if m, err = u.sift(m); err == nil && m == nil {
			left = ""
		} else if err == nil {
			data, err := jsonrpc.EncodeMessage(m)
			if err != nil {
				t.Fatal(err)
			}
			left = strings.TrimSuffix(strings.TrimPrefix(string(data), `{"jsonrpc":"2.0",`), "}")
		}
		if left != c.left {
			t.Errorf("%.80s: %s is left", c.says, left)
		}
	}
	if told != "a (1)" {
		t.Errorf("%q", told)
	}
	u.changed.Store(false) // the SDK has handled it
	if m, err := u.sift(&jsonrpc.Request{Method: "notifications/tools/list_changed"}); m == nil || err != nil {
		t.Errorf("the next change: %v, %v", m, err)
	}
}
