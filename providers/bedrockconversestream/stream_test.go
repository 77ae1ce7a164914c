package bedrockconversestream_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/bedrockconversestream"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reply is a good one, without a word.
func reply(t *testing.T) []byte {
	var b bytes.Buffer
	for _, f := range [][2]string{
		{"messageStart", `{"role":"assistant"}`}, {"messageStop", `{"stopReason":"end_turn"}`}, {"metadata", `{}`},
	} {
		frame := eventstream.Message{Payload: []byte(f[1])}
		frame.Headers.Set(eventstreamapi.EventTypeHeader, eventstream.StringValue(f[0]))
		frame.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(eventstreamapi.EventMessageType))
		if err := eventstream.NewEncoder().Encode(&b, frame); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func serve(t *testing.T) (*vendortest.Vendor, *providers.Request) {
	vendor := vendortest.Serve(t, "application/vnd.amazon.eventstream", reply(t))
	return vendor, &providers.Request{
		Model: &providers.Model{ID: "m", API: "bedrock-converse-stream", Provider: "amazon-bedrock", BaseURL: vendor.URL,
			MaxTokens: 1000},
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Go."}}}},
		HTTP:     vendortest.Client(t),
	}
}

// environment is one for a request.
func environment(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// ask returns the credentials that the request was sent with.
func ask(t *testing.T, stream providers.StreamFunc, vendor *vendortest.Vendor, req *providers.Request) string {
	t.Helper()
	if m := vendortest.Final(t, t.Context(), stream, req); m.StopReason != schemas.StopStop {
		t.Fatalf("%s: %s", m.StopReason, m.ErrorMessage)
	}
	sent := vendor.Sent()
	return sent[len(sent)-1].Header.Get("Authorization")
}

func TestCredentialsOfTheRequest(t *testing.T) {
	t.Setenv("AWS_BEARER_TOKEN_BEDROCK", "of-the-process")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAPROCESS")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of-the-process")
	t.Setenv("AWS_REGION", "sa-east-1")
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "AKIAREQUEST", "AWS_SECRET_ACCESS_KEY": "s"}
	for want, change := range map[string]func(*providers.Request){
		"Bearer of-the-request": func(req *providers.Request) { req.APIKey = "of-the-request" },
		"AWS4-HMAC-SHA256 Credential=AKIAREQUEST/.../us-east-1/bedrock/": func(*providers.Request) {},
		"AWS4-HMAC-SHA256 Credential=AKIAREQUEST/.../eu-west-3/bedrock/": func(req *providers.Request) {
			req.Getenv = environment(map[string]string{"AWS_ACCESS_KEY_ID": "AKIAREQUEST", "AWS_SECRET_ACCESS_KEY": "s",
				"AWS_REGION": "eu-west-3"})
		},
		"AWS4-HMAC-SHA256 Credential=AKIAREQUEST/.../eu-west-1/bedrock/": func(req *providers.Request) {
			req.Vendor = json.RawMessage(`{"region":"eu-west-1"}`)
		},
		"AWS4-HMAC-SHA256 Credential=AKIAREQUEST/.../ap-south-1/bedrock/": func(req *providers.Request) {
			req.Model.ID = "arn:aws:bedrock:ap-south-1:1:application-inference-profile/x"
		},
	} {
		vendor, req := serve(t)
		req.Getenv = environment(keys)
		change(req)
		got := ask(t, bedrockconversestream.Stream, vendor, req)
		begin, end, _ := strings.Cut(want, "...")
		if !strings.HasPrefix(got, begin) || !strings.Contains(got, end) {
			t.Errorf("signed with %s, want %s", got, want)
		}
	}
}

// Without credentials in the request those of the machine are used. New keeps them, Stream does not.
func TestCredentialsOfTheMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(id string) {
		text := "[profile p]\nregion = eu-central-1\naws_access_key_id = " + id + "\naws_secret_access_key = s\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", file)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file+".none")
	vendor, req := serve(t)
	req.Getenv = environment(map[string]string{"AWS_PROFILE": "p"})
	kept := bedrockconversestream.New()
	for _, step := range []struct {
		id, want string
		stream   providers.StreamFunc
	}{
		{"AKIAONE", "AKIAONE", kept}, {"AKIATWO", "AKIAONE", kept}, {"AKIATWO", "AKIATWO", bedrockconversestream.Stream},
	} {
		write(step.id)
		got := ask(t, step.stream, vendor, req)
		if !strings.Contains(got, "Credential="+step.want+"/") || !strings.Contains(got, "/eu-central-1/bedrock/") {
			t.Errorf("signed with %s, want %s", got, step.want)
		}
	}
	req.Vendor = json.RawMessage(`{"profile":"q"}`)
	m := vendortest.Final(t, t.Context(), kept, req)
	if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, `profile "q"`) {
		t.Errorf("a profile that is not there: %s %q", m.StopReason, m.ErrorMessage)
	}
}

// A lazy transport answers before it has read the request, as HTTP allows.
type lazy struct {
	reply   []byte
	request io.Reader
}

func (l *lazy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.request = r.Body
	return &http.Response{StatusCode: http.StatusOK, Header: make(http.Header),
		Body: io.NopCloser(bytes.NewReader(l.reply)), Request: r}, nil
}

// The SDK closes the body of a request as soon as there is a response; net/http breaks the connection off then, if it
// still wanted to know whether there is more of it.
func TestRequestsOutliveTheHeadOfTheReply(t *testing.T) {
	transport := &lazy{reply: reply(t)}
	_, req := serve(t)
	req.APIKey, req.HTTP = "of-the-request", &http.Client{Transport: transport}
	if m := vendortest.Final(t, t.Context(), bedrockconversestream.Stream, req); m.StopReason != schemas.StopStop {
		t.Fatal(m.ErrorMessage)
	}
	if sent, err := io.ReadAll(transport.request); err != nil || !json.Valid(sent) {
		t.Errorf("the request's body is %q, %v", sent, err)
	}
}

func TestJSONIsSentAsItIs(t *testing.T) {
	const arguments = `{"z":1,"a":12345678901234567890,"é":"\ud83d","b":{"y":1.0}}`
	const parameters = `{"type":"object","properties":{"z":{"type":"string"},"a":{"maximum":12345678901234567890}}}`
	vendor, req := serve(t)
	req.APIKey = "of-the-request"
	req.Tools = []schemas.ToolDefinition{{Name: "t", Parameters: json.RawMessage(parameters)}}
	req.Messages = append(req.Messages, &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.ToolCall{ID: "c", Name: "t", Arguments: json.RawMessage(arguments)}},
	})
	ask(t, bedrockconversestream.Stream, vendor, req)
	for _, want := range []string{arguments, parameters} {
		if body := string(vendor.Sent()[0].Body); !strings.Contains(body, want) {
			t.Errorf("%s is not in %s", want, body)
		}
	}
}

// TestModelsThatThinkByDefault has a model whose off has a name, which the request carries.
func TestModelsThatThinkByDefault(t *testing.T) {
	disabled := "disabled"
	for name, c := range map[string]struct {
		off   *string
		level schemas.ThinkingLevel
		want  string
	}{
		"told":     {&disabled, schemas.ThinkingOff, `{"type":"disabled"}`},
		"not told": {nil, schemas.ThinkingOff, ""},
		"asked":    {&disabled, schemas.ThinkingHigh, `"type":"adaptive"`},
	} {
		vendor, req := serve(t)
		req.APIKey, req.Model.ID, req.Model.Reasoning, req.Reasoning = "k", "global.anthropic.claude-sonnet-5", true, c.level
		if c.off != nil {
			req.Model.ThinkingLevels = map[schemas.ThinkingLevel]*string{schemas.ThinkingOff: c.off}
		}
		ask(t, bedrockconversestream.New(), vendor, req)
		if got := string(vendor.Sent()[0].Body); c.want == "" && strings.Contains(got, "thinking") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestMistakesOfTheCallerAreErrors(t *testing.T) {
	for name, change := range map[string]func(*providers.Request){
		"compat":      func(req *providers.Request) { req.Model.Compat = json.RawMessage(`[]`) },
		"options":     func(req *providers.Request) { req.Vendor = json.RawMessage(`{"region":1}`) },
		"tool choice": func(req *providers.Request) { req.ToolChoice = json.RawMessage(`{"type":`) },
		"parameters of tool t": func(req *providers.Request) {
			req.Tools = []schemas.ToolDefinition{{Name: "t", Parameters: json.RawMessage(`{`)}}
		},
	} {
		vendor, req := serve(t)
		req.APIKey = "of-the-request"
		change(req)
		m := vendortest.Final(t, t.Context(), bedrockconversestream.Stream, req)
		if m.StopReason != schemas.StopError || !strings.Contains(m.ErrorMessage, name) || vendor.Sent() != nil {
			t.Errorf("%s: %s %q", name, m.StopReason, m.ErrorMessage)
		}
	}
}
