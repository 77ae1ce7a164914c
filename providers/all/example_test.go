package all_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/all"
	"github.com/loopbus/loopbus/schemas"
)

// Every vendor in two lines, with the keys of the environment (Getenv: os.Getenv). Here a server stands for the vendor.
func Example() {
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"Hello from `+r.URL.Path+`"},`+
			`"finish_reason":"stop"}]}`+"\n\n")
	}))
	defer vendor.Close()
	getenv := func(name string) string { return map[string]string{"GROQ_API_KEY": "gsk-example"}[name] }
	toVendor := func(r *providers.Request) {
		m := *r.Model // a model is shared
		m.BaseURL = vendor.URL
		r.Model = &m
	}

	models, err := all.New(all.Options{Getenv: getenv, Prepare: toVendor})
	if err != nil {
		fmt.Println(err)
		return
	}
	model, err := models.Find("groq/openai/gpt-oss-120b")
	if err != nil {
		fmt.Println(err)
		return
	}

	hi := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Hi."}}}
	ask := schemas.ModelRequest{Model: model, Messages: schemas.Messages{hi}}
	for e, err := range models.Stream(context.Background(), ask) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if e.Terminal() {
			fmt.Println(e.Message.Content.JoinText())
		}
	}
	// Output: Hello from /chat/completions
}
