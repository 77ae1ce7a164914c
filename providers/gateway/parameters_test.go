package gateway_test

import (
	"net/http"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/gateway"
	"github.com/loopbus/loopbus/schemas"
)

func TestParametersThatVendorsRefuse(t *testing.T) {
	t.Parallel()
	for announced, want := range map[string]string{
		`{"type":"object","properties":{"a":{"enum":["x"]},"b":{"oneOf":[{"type":"string"}]}}}`: "",
		`{ "properties": {"object": {}} }`: "",
		``:                                 "",
		`{"type":"object","oneOf":[{"required":["a"],"properties":{"a":{"type":"string"}}},{"properties":{"b":{}}}]}`: `` +
			`{"properties":{"a":{"type":"string"},"b":{}},"type":"object"}`,
		`{"properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"a":{}}}],"not":{}}`: `` +
			`{"properties":{"a":{"type":"string"}},"required":["a"],"type":"object"}`,
		`{"type":"array","enum":[1]}`: `{"properties":{},"type":"object"}`,
	} {
		tools := []schemas.ToolDefinition{{Name: "first"}, {Name: "ls", Parameters: []byte(announced)}}
		var asked []*providers.Request
		g := newGateway(t, gateway.Options{}, api(&asked, http.StatusOK, nil))
		for _, err := range g.Stream(t.Context(), schemas.ModelRequest{Tools: tools,
			Model: schemas.ModelRef{Provider: "here", ID: "any"}}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		got := string(asked[0].Tools[1].Parameters)
		if want == "" {
			want = announced
		}
		if got != want {
			t.Errorf("%s becomes %s, want %s", announced, got, want)
		}
		if string(tools[1].Parameters) != announced {
			t.Errorf("%s was changed in place", announced)
		}
	}
}
