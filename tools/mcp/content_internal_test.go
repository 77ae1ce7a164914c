package mcp

import (
	"context"
	"encoding/base64"
	"testing"
	"testing/synctest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

// The images of all results are decoded one after the other, and a call that ends does not wait for them.
func TestPicturesWaitForEachOther(t *testing.T) {
	t.Parallel()
	const dot = "R0lGODlhAQABAIAAAAAAAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==" // a GIF
	data, err := base64.StdEncoding.DecodeString(dot)
	if err != nil {
		t.Fatal(err)
	}
	result := &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: data}, &sdk.ImageContent{Data: data}}}
	synctest.Test(t, func(t *testing.T) {
		b := &Bridge{o: BridgeOptions{MaxImageBytes: picture.MaxBase64}, turns: picture.NewTurns()}
		end, err := b.turns.Take(t.Context()) // another call decodes
		if err != nil {
			t.Fatal(err)
		}
		convert := func(ctx context.Context) schemas.ToolResult {
			got, err := b.resultOf(ctx, result)
			if err != nil {
				t.Error(err)
			}
			return got
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, next := make(chan schemas.ToolResult, 1), make(chan schemas.ToolResult, 1)
		go func() { cancelled <- convert(ctx) }()
		go func() { next <- convert(t.Context()) }()
		synctest.Wait()
		if len(cancelled) > 0 || len(next) > 0 {
			t.Fatal("they did not wait")
		}
		cancel()
		<-cancelled // nobody reads the result of a call that has ended
		end()
		for i, c := range (<-next).Content {
			if got, ok := c.(schemas.Image); !ok || got.Data != dot || got.MimeType != "image/gif" {
				t.Errorf("%d: %#v", i, c)
			}
		}
	})
}
