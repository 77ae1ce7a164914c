package catalogue

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/loopbus/loopbus/providers"
)

//go:embed models.json
var builtIn []byte

//go:embed schema.json
var schemaText string

// file is the JSON form of a catalogue.
type file struct {
	AsOf      string              `json:"asOf,omitempty"`
	Preferred []string            `json:"preferred,omitempty"`
	Providers map[string]provider `json:"providers"`
}

// provider is a provider in a file. Its Defaults apply to members that its models do not set.
type provider struct {
	Name     string           `json:"name"`
	Open     bool             `json:"open"`    // any id is a model
	Keyless  bool             `json:"keyless"` // no key is needed
	Defaults json.RawMessage  `json:"defaults"`
	Models   map[string]entry `json:"models"`
}

// entry is a model in a file, with its aliases.
type entry struct {
	Aliases []string
	raw     json.RawMessage
}

// UnmarshalJSON keeps the rest for later: it is merged over the provider's defaults.
func (e *entry) UnmarshalJSON(data []byte) error {
	var head struct {
		Aliases []string `json:"aliases"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return err
	}
	e.Aliases, e.raw = head.Aliases, bytes.Clone(data)
	return nil
}

// Load returns the built-in catalogue, with the user's file merged over it if path is not empty. The error names the
// file and the invalid member.
func Load(path string) (*Catalogue, error) {
	if path == "" {
		return Parse(nil)
	}
	user, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	c, err := Parse(user)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse is like [Load], for the text of the user's file; nil for none.
func Parse(user []byte) (*Catalogue, error) {
	text := builtIn
	if len(user) > 0 {
		bare, err := merge([]byte("{}"), user) // without the null members, which remove others and need no check
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		if err := check(bare); err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		merged, err := merge(builtIn, user)
		if err != nil {
			return nil, fmt.Errorf("catalogue: %w", err)
		}
		text = merged
	}
	if err := check(text); err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	return f.catalogue()
}

// check validates a text against the schema. Its error names every invalid member.
func check(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	schema, err := jsonschema.CompileString("https://loopbus.dev/schemas/catalogue.v1.json", schemaText)
	if err != nil {
		return err
	}
	var invalid *jsonschema.ValidationError
	if err := schema.Validate(v); errors.As(err, &invalid) {
		return errors.New(strings.Join(problems(invalid), "; "))
	} else if err != nil {
		return err
	}
	return nil
}

func problems(e *jsonschema.ValidationError) (list []string) {
	if len(e.Causes) == 0 {
		return []string{e.InstanceLocation + ": " + e.Message}
	}
	for _, cause := range e.Causes {
		list = append(list, problems(cause)...)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// levelMap is the member in which null is a value, that the model does not support the level.
const levelMap = "thinkingLevelMap"

// merge applies a JSON merge patch (RFC 7396), except that nulls in a [levelMap] are kept as values.
func merge(base, patch []byte) ([]byte, error) {
	var b, p any
	if err := errors.Join(json.Unmarshal(base, &b), json.Unmarshal(patch, &p)); err != nil {
		return nil, err
	}
	return json.Marshal(mergeValue(b, p, false))
}

func mergeValue(base, patch any, nulls bool) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	b, ok := base.(map[string]any)
	if !ok {
		b = map[string]any{}
	}
	for name, v := range p {
		if v == nil && !nulls {
			delete(b, name)
		} else {
			b[name] = mergeValue(b[name], v, name == levelMap)
		}
	}
	return b
}

// model returns the model with the members raw, merged over the provider's defaults.
func (p provider) model(id, providerID string, raw json.RawMessage) (*providers.Model, error) {
	text := p.Defaults
	if len(text) == 0 {
		text = json.RawMessage("{}")
	}
	if len(raw) > 0 {
		merged, err := merge(text, raw)
		if err != nil {
			return nil, err
		}
		text = merged
	}
	m := &providers.Model{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("/providers/%s/models/%s: %w", providerID, id, err)
	}
	m.ID, m.Provider = id, providerID
	if m.Name == "" {
		m.Name = id
	}
	if m.API == "" || m.BaseURL == "" && !slices.Contains(withoutURL, m.API) {
		return nil, fmt.Errorf("/providers/%s/models/%s: no api or no baseUrl, neither there nor in the provider's defaults",
			providerID, id)
	}
	return m, nil
}

// withoutURL lists the APIs whose URL follows from a region, a project or a resource.
var withoutURL = []string{"amazon-bedrock", "bedrock-converse-stream", "google-vertex", "azure-openai-responses"}
