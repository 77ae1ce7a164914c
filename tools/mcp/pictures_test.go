package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/mcp"
)

// showing is a bridge to a server whose only tool returns what is given.
func showing(t *testing.T, result *sdk.CallToolResult, change ...func(*mcp.BridgeOptions)) *rig {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "zoo", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return result, nil })
	s := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return start(t, "", parse(t, `{"url":"`+s.URL+`"}`), true, change...)
}

// blank is a PNG.
func blank(t *testing.T, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// photo is a JPEG.
func photo(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 8, 8)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func shown(data []byte, mimeType string) schemas.Contents {
	return schemas.Contents{schemas.Image{Data: base64.StdEncoding.EncodeToString(data), MimeType: mimeType}}
}

func said(text string) schemas.Contents { return schemas.Contents{schemas.Text{Text: text}} }

// A vendor refuses a request with an image that it cannot read, and all later ones of the session.
func TestPicturesThatNoModelCanRead(t *testing.T) {
	t.Parallel()
	small, jpg := blank(t, 4, 3), photo(t)
	animated := append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00"), 1, 0, 0, 1, 0, 0)
	cases := []struct {
		name, declared string
		data           []byte
		want           schemas.Contents
	}{
		{"fine", "image/png", small, shown(small, "image/png")},
		{"of another type", "image/png", jpg, shown(jpg, "image/jpeg")},
		{"of no type", "", jpg, shown(jpg, "image/jpeg")},
		{"of a type in capitals", "IMAGE/PNG", small, shown(small, "image/png")},
		{"garbage", "image/png", []byte("<html>502 Bad Gateway</html>"), said("28 bytes: it cannot be shown.]")},
		{"cut", "image/png", small[:len(small)-20], said(fmt.Sprintf("%d bytes: it cannot be shown.]", len(small)-20))},
		{"a signature", "image/gif", []byte("GIF89a"), said("6 bytes: it cannot be shown.]")},
		{"an animation without pictures", "image/webp", animated, said("30 bytes: it cannot be shown.]")},
		{"nothing", "image/png", []byte{}, said("0 bytes: it cannot be shown.]")},
	}
	result := &sdk.CallToolResult{}
	for _, c := range cases {
		result.Content = append(result.Content, &sdk.ImageContent{Data: c.data, MIMEType: c.declared},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///x", Blob: c.data, MIMEType: c.declared}})
	}
	got, isError := showing(t, result).call(t.Context(), "echo", `{}`)
	if isError || len(got.Content) != 2*len(cases) {
		t.Fatalf("%v, %d contents: %.1000q", isError, len(got.Content), got.Content.JoinText())
	}
	for i, c := range cases {
		for n, what := range []string{"Image", "Resource file:///x"} {
			want := c.want
			if end, ok := want[0].(schemas.Text); ok {
				want = said("[" + what + ", " + c.declared + ", " + end.Text)
			}
			if d := cmp.Diff(want, got.Content[2*i+n:2*i+n+1]); d != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.name, what, d)
			}
		}
	}
}

// What is too large for vendors is scaled down, and the model is told by how much: it may have to click somewhere.
func TestPicturesThatAreTooLarge(t *testing.T) {
	t.Parallel()
	page := blank(t, 128, 9000)
	got, isError := showing(t, &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.ImageContent{Data: page, MIMEType: "image/png"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///x", Blob: page, MIMEType: "image/png"}},
	}}).call(t.Context(), "echo", `{}`)
	if isError || len(got.Content) != 4 {
		t.Fatalf("%v, %d contents: %.1000q", isError, len(got.Content), got.Content.JoinText())
	}
	for i := 0; i < 4; i += 2 {
		const want = "[Image: original 128x9000, displayed at 28x2000. " +
			"Multiply coordinates by 4.57 to map to original image.]"
		if d := cmp.Diff(said(want), got.Content[i:i+1]); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if config := configOf(t, got.Content[i+1]); config.Width != 28 || config.Height != 2000 {
			t.Errorf("it has %d x %d pixels", config.Width, config.Height)
		}
	}
}

func configOf(t *testing.T, c schemas.Content) image.Config {
	t.Helper()
	shown, ok := c.(schemas.Image)
	if !ok {
		t.Fatalf("%#v is no image", c)
	}
	data, err := base64.StdEncoding.DecodeString(shown.Data)
	if err != nil {
		t.Fatal(err)
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || "image/"+format != shown.MimeType {
		t.Fatalf("%s as %s, %v", format, shown.MimeType, err)
	}
	return config
}

// An image is scaled to the bytes that the options allow.
func TestPicturesHaveTheBytesAllowed(t *testing.T) {
	t.Parallel()
	const most = 140
	r := showing(t, &sdk.CallToolResult{Content: []sdk.Content{
		&sdk.ImageContent{Data: blank(t, 300, 300), MIMEType: "image/png"},
	}}, func(o *mcp.BridgeOptions) { o.MaxImageBytes = most })
	got, isError := r.call(t.Context(), "echo", `{}`)
	if isError || len(got.Content) != 2 || !strings.HasPrefix(got.Content.JoinText(), "[Image: original 300x300, ") {
		t.Fatalf("%v, %d contents: %.1000q", isError, len(got.Content), got.Content.JoinText())
	}
	if config := configOf(t, got.Content[1]); config.Width >= 300 {
		t.Errorf("it is still %d pixels wide", config.Width)
	}
	if n := len(got.Content[1].(schemas.Image).Data); n >= most {
		t.Errorf("it has %d bytes", n)
	}
}

// A message has room for thousands of pictures that take seconds each. Only the first few are looked at.
func TestPicturesOfAResultAreBounded(t *testing.T) {
	t.Parallel()
	result := &sdk.CallToolResult{}
	for range 22 {
		result.Content = append(result.Content, &sdk.ImageContent{Data: blank(t, 1, 1), MIMEType: "image/png"})
	}
	got, _ := showing(t, result).call(t.Context(), "echo", `{}`)
	if len(got.Content) != 22 {
		t.Fatalf("%d contents", len(got.Content))
	}
	for i, c := range got.Content {
		text, ok := c.(schemas.Text)
		if ok != (i >= 20) || ok && !strings.HasSuffix(text.Text, " bytes: it is not shown, the result has too many.]") {
			t.Errorf("%d: %#v", i, c)
		}
	}
}

// An error is a text: its images are named.
func TestPicturesOfAnError(t *testing.T) {
	t.Parallel()
	result := &sdk.CallToolResult{IsError: true, Content: []sdk.Content{
		&sdk.TextContent{Text: "It looks like this:"},
		&sdk.ImageContent{Data: blank(t, 3000, 1), MIMEType: "image/png"},
	}}
	want := fmt.Sprintf("It looks like this:\n[Image, image/png, %d bytes: it cannot be shown.]", len(blank(t, 3000, 1)))
	showing(t, result).want("echo", `{}`, want, true)
}
