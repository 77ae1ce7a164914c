package providers_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// aText stands for the value of a text member in what a server sends.
var aText = regexp.MustCompile(`:\s*"([^"\\]*)"`)

// bedrockFrames holds the payloads of the frames of a Bedrock reply.
func bedrockFrames() []wireFrame {
	return []wireFrame{
		{"messageStart", `{"role":"assistant"}`},
		{"contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"t1","name":"ls"}}}`},
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}`},
		{"contentBlockStop", `{"contentBlockIndex":0}`},
		{"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"reasoningContent":{"text":"x"}}}`},
		{"contentBlockDelta", `{"contentBlockIndex":1,"delta":{"reasoningContent":{"signature":"x"}}}`},
		{"messageStop", `{"stopReason":"end_turn"}`},
		{"internalServerException", `{"message":"x"}`},
	}
}

// hostileBodies returns replies of an API in which one text is long.
func hostileBodies(api, long string) (all [][]byte) {
	if api == "bedrock-converse-stream" {
		for i, f := range bedrockFrames() {
			for _, at := range aText.FindAllStringSubmatchIndex(f.payload, -1) {
				frames := bedrockFrames()
				frames[i].payload = f.payload[:at[2]] + long + f.payload[at[3]:]
				all = append(all, frameBody(frames...))
			}
		}
		return all
	}
	late := `data: {"choices":[{"delta":{"tool_calls":[{"index":7,"function":{"arguments":"{}"}}]}}]}` + "\n\n" +
		`data: {"choices":[{"delta":{"tool_calls":[{"index":7,"id":"late","function":{"name":"late"}}]}}]}` + "\n\n"
	fails := `data: {"type":"error","object":"error","code":"x",` +
		`"message":"x","error":{"type":"x","code":"x","message":"x"},` +
		`"response":{"error":{"code":"x","message":"x"}}}` + "\n\n"
	for _, body := range [][]byte{
		wireReplies[api].text(1), wireReplies[api].call(1),
		slices.Concat([]byte(late), wireReplies[api].text(1)),
		[]byte(fails), []byte("event: error\n" + fails), []byte("event: response.failed\n" + fails),
		[]byte(strings.Replace(fails, `"type":"error"`, `"type":"response.failed"`, 1)),
	} {
		for _, at := range aText.FindAllSubmatchIndex(body, -1) {
			all = append(all, slices.Concat(body[:at[2]], []byte(long), body[at[3]:]))
		}
	}
	return all
}

// TestEveryTextOfAReplyIsBounded has servers that send a very long text in each member of a reply in turn.
func TestEveryTextOfAReplyIsBounded(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	const reply, overhead = 2 << 10, 8 << 10 // overhead is for a reply without the text
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			for _, body := range hostileBodies(api, strings.Repeat("w", 2*(reply+overhead))) {
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					beginHead(api, w)
					_, _ = w.Write(body)
				})
				req.Limits = providers.Limits{Reply: reply, ErrorBody: reply}
				var all int
				for e := range apis[api](t.Context(), req) {
					for _, v := range []any{e, e.Message} {
						raw, err := json.Marshal(v)
						if err != nil {
							t.Fatal(err)
						}
						all = max(all, len(raw))
					}
					if e.Type == schemas.StreamError && e.Message.ErrorMessage == "" {
						t.Errorf("it does not say what is wrong: %s", body)
					}
				}
				if all > reply+overhead {
					short := regexp.MustCompile(`w{100,}`).ReplaceAll(body, []byte("WWW"))
					t.Errorf("a reply of %d bytes of %s", all, bytes.ToValidUTF8(short, []byte("?")))
				}
			}
		})
	}
}
