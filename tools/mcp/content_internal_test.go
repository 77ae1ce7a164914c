package mcp

import (
	"context"
	"encoding/base64"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"weak"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

const dot = "R0lGODlhAQABAIAAAAAAAP///yH5BAAAAAAALAAAAAABAAEAAAICRAEAOw==" // a GIF

// dots returns a result with so many images, and a text.
func dots(t *testing.T, n int, text string) *sdk.CallToolResult {
	t.Helper()
	data, err := base64.StdEncoding.DecodeString(dot)
	if err != nil {
		t.Fatal(err)
	}
	result := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	for range n {
		result.Content = append(result.Content, &sdk.ImageContent{Data: data})
	}
	return result
}

func newLooking() *Bridge {
	return &Bridge{o: BridgeOptions{MaxImageBytes: picture.MaxBase64, Server: ServerConfig{Name: "zoo"}},
		looking: picture.NewTurns(), turns: picture.NewTurns()}
}

// The images of all results are decoded one after the other, and a call that ends does not wait for them.
func TestPicturesWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newLooking()
		end, err := b.turns.Take(t.Context()) // another call decodes
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, next := make(chan struct{}), make(chan schemas.ToolResult, 1)
		go func() {
			_, _ = b.resultOf(ctx, dots(t, 2, "")) // nobody reads the result of a call that has ended
			close(cancelled)
		}()
		go func() {
			got, err := b.resultOf(t.Context(), dots(t, 2, ""))
			if err != nil {
				t.Error(err)
			}
			next <- got
		}()
		synctest.Wait()
		select {
		case <-cancelled:
			t.Fatal("it did not wait")
		case <-next:
			t.Fatal("it did not wait")
		default:
		}
		cancel()
		<-cancelled
		end()
		got := (<-next).Content
		for _, c := range got[1:] {
			if got, ok := c.(schemas.Image); !ok || got.Data != dot || got.MimeType != "image/gif" {
				t.Errorf("%#v", c)
			}
		}
	})
}

// The images of a server do not keep those of other tools from their turn, however many results have some.
func TestPicturesOfManyResultsLeaveTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, done := newLooking(), make(chan error, 20)
		end, err := b.turns.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			go func() {
				_, err := b.resultOf(t.Context(), dots(t, 1, ""))
				done <- err
			}()
		}
		synctest.Wait()
		other := make(chan int, 1)
		go func() {
			end, err := b.turns.Take(t.Context())
			if err != nil {
				t.Error(err)
			}
			other <- len(done)
			end()
		}()
		synctest.Wait()
		end()
		if n := <-other; n > 1 {
			t.Errorf("an image of another tool came after the images of %d results", n)
		}
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A server may send results faster than their images are decoded. What waits has a bound, and no result is kept whole.
func TestResultsWaitInBoundedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, done := newLooking(), make(chan error, 20)
		end, err := b.looking.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("x", maxUnseen/8-1000)
		give := func(result *sdk.CallToolResult) weak.Pointer[sdk.CallToolResult] {
			go func() {
				_, err := b.resultOf(t.Context(), result)
				done <- err
			}()
			return weak.Make(result)
		}
		kept := []weak.Pointer[sdk.CallToolResult]{}
		for range 8 {
			kept = append(kept, give(dots(t, 1, text)))
		}
		synctest.Wait()
		for range 2 {
			give(dots(t, 1, text))
			if err := <-done; err == nil || !strings.Contains(err.Error(), "zoo was called, but its result is left out") {
				t.Errorf("one more: %v", err)
			}
		}
		give(dots(t, 0, text))
		if err := <-done; err != nil {
			t.Errorf("one without images: %v", err)
		}
		runtime.GC()
		for i, result := range kept {
			if result.Value() != nil {
				t.Errorf("result %d is kept while it waits", i)
			}
		}
		end()
		for range 8 {
			if err := <-done; err != nil {
				t.Errorf("one that waited: %v", err)
			}
		}
		give(dots(t, 1, text))
		if err := <-done; err != nil || b.unseen.Load() != 0 {
			t.Errorf("afterwards: %v, %d bytes", err, b.unseen.Load())
		}
	})
}
