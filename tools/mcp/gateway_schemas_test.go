package mcp_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/mcp"
)

// What announced tools take does not grow with what their compiled schemas do. Nothing may run beside: it measures the
// memory of the process.
func TestCompiledSchemasAreNotKeptWithTools(t *testing.T) {
	live := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	g := mcp.NewGateway(mcp.GatewayOptions{})
	before := live()
	var defs []schemas.ToolDefinition
	for n := range 100 {
		var patterns []string
		for p := range 20 {
			patterns = append(patterns, fmt.Sprintf(`{"pattern":"a{1000}%d.%d"}`, n, p))
		}
		defs = append(defs, schemas.ToolDefinition{Name: fmt.Sprint("tool", n),
			Parameters: json.RawMessage(`{"type":"object","anyOf":[` + strings.Join(patterns, ",") + `]}`)})
	}
	g.SetTools(defs)
	const most = 60 << 20 // the cache of the process has some 50 MB
	if grown := live() - before; grown > most {
		t.Errorf("%d tools take %d bytes", len(defs), grown)
	}
	runtime.KeepAlive(g)
}
