// Package all provides all vendors at once: every API of this module behind the gateway, with the built-in catalogue
// and the keys of the environment.
//
// A program that imports it links the SDKs of all vendors. To link only some, create a [gateway.Gateway] directly.
package all

import (
	"net/http"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/anthropicmessages"
	"github.com/loopbus/loopbus/providers/azureopenairesponses"
	"github.com/loopbus/loopbus/providers/bedrockconversestream"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/providers/googlegenerativeai"
	"github.com/loopbus/loopbus/providers/googlevertex"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/providers/mistralconversations"
	"github.com/loopbus/loopbus/providers/openaicompletions"
	"github.com/loopbus/loopbus/providers/openairesponses"
	"github.com/loopbus/loopbus/schemas"
)

// APIs returns the APIs by id. Cloud APIs cache the credentials that they find on the machine, so a program should
// call APIs once. The caller owns the map.
func APIs() map[string]providers.StreamFunc {
	return map[string]providers.StreamFunc{
		"anthropic-messages":      anthropicmessages.Stream,
		"azure-openai-responses":  azureopenairesponses.Stream,
		"bedrock-converse-stream": bedrockconversestream.New(),
		"google-generative-ai":    googlegenerativeai.Stream,
		"google-vertex":           googlevertex.New(),
		"mistral-conversations":   mistralconversations.Stream,
		"openai-completions":      openaicompletions.Stream,
		"openai-responses":        openairesponses.Stream,
	}
}

// Options configures [New]. The zero value is usable, for servers that need no key.
type Options struct {
	Getenv    func(name string) string // the environment, for keys and for the APIs; nil is an empty one
	Keys      gateway.Keys             // nil: the keys of the environment
	Catalogue *catalogue.Catalogue     // nil: the built-in one
	Limiter   gateway.Limiter          // nil: no limits
	Prepare   func(r *providers.Request)
	HTTP      *http.Client // nil is the default transport
}

// Models are the models of a catalogue. It is safe for concurrent use.
type Models struct {
	*gateway.Gateway
	catalogue *catalogue.Catalogue
}

// New returns the models for the options.
func New(o Options) (*Models, error) {
	if o.Catalogue == nil {
		var err error
		if o.Catalogue, err = catalogue.Load(""); err != nil {
			return nil, err
		}
	}
	if o.Keys == nil && o.Getenv != nil {
		o.Keys = keys.Env(o.Getenv)
	}
	return &Models{catalogue: o.Catalogue, Gateway: gateway.New(gateway.Options{
		Catalogue: o.Catalogue, APIs: APIs(), Keys: o.Keys, Limiter: o.Limiter, Prepare: o.Prepare, HTTP: o.HTTP,
		Getenv: o.Getenv,
	})}, nil
}

// Find returns the model of a name: provider/id, or an id or alias that only one provider has. The error lists
// similar names.
func (m *Models) Find(name string) (schemas.ModelRef, error) {
	found, err := m.catalogue.Resolve(name)
	if err != nil {
		return schemas.ModelRef{}, err
	}
	return found.Ref(), nil
}
