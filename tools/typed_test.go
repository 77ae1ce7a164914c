package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/tools"
)

type place struct {
	City string `json:"city" jsonschema_description:"Name, in any language"`
}

type forecast struct {
	place
	Unit   string            `json:"unit" jsonschema:"title=Unit,enum=celsius,enum=fahrenheit,default=celsius"`
	Days   int               `json:"days,omitempty" jsonschema:"minimum=1,maximum=14,default=3"`
	Exact  bool              `json:"exact,omitempty" jsonschema:"description=to the minute"`
	Hours  []float64         `json:"hours,omitempty" jsonschema:"minItems=1,maxItems=4"`
	From   *time.Time        `json:"from,omitempty"`
	Via    netip.Addr        `json:"via,omitzero"`
	Names  map[string]string `json:"names,omitempty"`
	Also   []place           `json:"also,omitempty"`
	Extra  any               `json:"extra,omitempty"`
	Hidden func()            `json:"-"`
}

const wantForecast = `{
  "properties": {
    "city": {"type": "string", "description": "Name, in any language"},
    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "title": "Unit", "default": "celsius"},
    "days": {"type": "integer", "maximum": 14, "minimum": 1, "default": 3},
    "exact": {"type": "boolean", "description": "to the minute"},
    "hours": {"items": {"type": "number"}, "type": "array", "maxItems": 4, "minItems": 1},
    "from": {"type": "string", "format": "date-time"},
    "via": {"type": "string"},
    "names": {"additionalProperties": {"type": "string"}, "type": "object"},
    "also": {
      "items": {
        "properties": {"city": {"type": "string", "description": "Name, in any language"}},
        "type": "object",
        "required": ["city"]
      },
      "type": "array"
    },
    "extra": {"description": "Any JSON value"}
  },
  "type": "object",
  "required": ["city"]
}`

func forecaster(got *forecast) tools.Func[forecast] {
	return func(_ context.Context, _ tools.Call, p forecast) (schemas.ToolResult, error) {
		*got = p
		return schemas.TextResult("sunny in " + p.City), nil
	}
}

func TestTypedDerivesTheSchema(t *testing.T) {
	t.Parallel()
	def := schemas.ToolDefinition{Name: "forecast", Label: "Forecast", Description: "tells",
		Effect:    schemas.EffectReadOnly,
		TimeoutMs: 5000, ExecutionMode: schemas.ExecuteSequential}
	tool, err := tools.Typed(def, forecaster(new(forecast)))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(compact(t, wantForecast), string(tool.Parameters)); d != "" {
		t.Errorf("parameters (-want +got):\n%s", d)
	}
	tool.Parameters = nil
	if d := cmp.Diff(def, tool.ToolDefinition); d != "" {
		t.Errorf("definition (-want +got):\n%s", d)
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.NewReplacer("\": ", "\":", ", \"", ",\"", "\n", "").Replace(strings.TrimLeft(line, " ")))
	}
	if !json.Valid([]byte(b.String())) {
		t.Fatalf("not JSON: %s", b.String())
	}
	return b.String()
}

// What a runner checks arguments with takes the schema, and so does the announcement's.
func TestTypedSchemaIsAccepted(t *testing.T) {
	t.Parallel()
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "forecast"}, forecaster(new(forecast)))
	if err != nil {
		t.Fatal(err)
	}
	schema, err := toolargs.Compile(tool.Parameters)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := schema.Validate(t.Context(), "forecast", json.RawMessage(`{"city":"Ulm","days":"4"}`)); err != nil ||
		string(got) != `{"city":"Ulm","days":4}` {
		t.Errorf("%s, %v", got, err)
	}
	for _, args := range []string{`{}`, `{"city":"Ulm","unit":"kelvin"}`, `{"city":"Ulm","days":15}`,
		`{"city":"Ulm","hours":[]}`} {
		if _, err := schema.Validate(t.Context(), "forecast", json.RawMessage(args)); err == nil {
			t.Errorf("%s is accepted", args)
		}
	}
	value, err := schemas.Marshal(schemas.ToolAnnouncement{ToolDefinition: tool.ToolDefinition, Worker: "w1",
		Since: "2026-02-03T04:05:06Z"})
	if err != nil {
		t.Fatal(err)
	}
	if err := schemas.ValidateToolAnnouncement(value); err != nil {
		t.Error(err)
	}
	for _, word := range []string{"$ref", "$schema", "$id", "$defs"} {
		if strings.Contains(string(tool.Parameters), word) {
			t.Errorf("the schema has %s: %s", word, tool.Parameters)
		}
	}
}

func TestTypedReadsArguments(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for args, want := range map[string]forecast{
		`{"city":"Ulm"}`:                                          {place: place{"Ulm"}, Unit: "celsius", Days: 3},
		`{"city":"Ulm","City":"Bonn","DAYS":9}`:                   {place: place{"Ulm"}, Unit: "celsius", Days: 3},
		`{"city":"Ulm","unit":"fahrenheit","days":1,"unknown":1}`: {place: place{"Ulm"}, Unit: "fahrenheit", Days: 1},
		`{"city":"Ulm","days":"2","from":"2026-02-03T04:05:06Z","via":"::1","also":[{"city":"Bonn"}],"extra":[1]}`: {
			place: place{"Ulm"}, Unit: "celsius", Days: 2, From: &at, Via: netip.IPv6Loopback(), Also: []place{{"Bonn"}},
			Extra: []any{1.0}},
	} {
		var got forecast
		tool, err := tools.Typed(schemas.ToolDefinition{Name: "forecast"}, forecaster(&got))
		if err != nil {
			t.Fatal(err)
		}
		result, isError := tool.Run(t.Context(), tools.Call{Arguments: json.RawMessage(args)}, nil)
		if isError || result.Content.JoinText() != "sunny in Ulm" {
			t.Errorf("%s: %v, %q", args, isError, result.Content.JoinText())
		}
		same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
		if d := cmp.Diff(want, got, cmp.AllowUnexported(forecast{}), same,
			cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Hidden" }, cmp.Ignore())); d != "" {
			t.Errorf("%s (-want +got):\n%s", args, d)
		}
	}
}

// Nothing of one call is left for the next: its defaults are fresh.
func TestTypedCallsAreApart(t *testing.T) {
	t.Parallel()
	type params struct {
		Tags []string `json:"tags" jsonschema:"default=a"`
	}
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "tag"},
		func(_ context.Context, _ tools.Call, p params) (schemas.ToolResult, error) {
			text := strings.Join(p.Tags, ",")
			p.Tags[0] = "changed"
			return schemas.TextResult(text), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if result, isError := tool.Run(t.Context(), tools.Call{}, nil); isError || result.Content.JoinText() != "a" {
			t.Errorf("%v, %q", isError, result.Content.JoinText())
		}
	}
}

func TestTypedRefusesBadArgumentsAndPassesErrors(t *testing.T) {
	t.Parallel()
	failure := errors.New("the station is down")
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "forecast"},
		func(context.Context, tools.Call, place) (schemas.ToolResult, error) {
			return schemas.ToolResult{}, failure
		})
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		`{}`:             "Validation failed for tool \"forecast\":\n  - city: must have required properties city",
		`{"city":"Ulm"}`: "the station is down",
	} {
		result, isError := tool.Run(t.Context(), tools.Call{Arguments: json.RawMessage(args)}, nil)
		if got := result.Content.JoinText(); !isError || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %v, %q, want %q", args, isError, got, want)
		}
	}
}

// A schema of one's own is used as it is.
func TestTypedKeepsGivenParameters(t *testing.T) {
	t.Parallel()
	given := json.RawMessage(`{"type":"object","properties":{"city":{"type":"string","minLength":3}}}`)
	var got forecast
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "forecast", Parameters: given}, forecaster(&got))
	if err != nil {
		t.Fatal(err)
	}
	if string(tool.Parameters) != string(given) {
		t.Errorf("parameters %s", tool.Parameters)
	}
	if _, isError := tool.Run(t.Context(), tools.Call{Arguments: json.RawMessage(`{"city":"U"}`)}, nil); !isError {
		t.Error("its limit is not kept")
	}
}

type chain struct {
	Next *chain `json:"next,omitempty"`
}

func TestTypedSaysWhatCannotBe(t *testing.T) {
	t.Parallel()
	for want, make := range map[string]func() error{
		`tool "x": parameters are a string, not a struct`:             typedOf[string]("x"),
		`tool "x": parameters.next: tools_test.chain contains itself`: typedOf[chain]("x"),
		`tool "x": parameters.on: a func() cannot be decoded from JSON`: typedOf[struct {
			On func() `json:"on"`
		}]("x"),
		`tool "x": parameters.N: keys of map[int]string are not strings`: typedOf[struct{ N map[int]string }]("x"),
		`tool "x": parameters.N: big.Int has its own UnmarshalJSON`:      typedOf[struct{ N big.Int }]("x"),
		`tool "not a token": illegal subject`:                            typedOf[place]("not a token"),
		`tool "x": defaults`: typedOf[struct {
			N []int `json:"n" jsonschema:"default=a"`
		}]("x"),
	} {
		if err := make(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s…", err, want)
		}
	}
	if _, err := tools.Typed[place](schemas.ToolDefinition{Name: "x"}, nil); err == nil {
		t.Error("a tool without a function is made")
	}
	bad := schemas.ToolDefinition{Name: "x", Parameters: json.RawMessage(`[]`)}
	if _, err := tools.Typed(bad, forecaster(nil)); err == nil {
		t.Error("parameters that are no schema are taken")
	}
}

func typedOf[P any](name string) func() error {
	return func() error {
		_, err := tools.Typed(schemas.ToolDefinition{Name: name},
			func(context.Context, tools.Call, P) (schemas.ToolResult, error) {
				return schemas.ToolResult{}, nil
			})
		return err
	}
}
