package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// A tool is a struct for its parameters, whose tags say what a model needs to know, and a function. Serve of package
// worker serves it.
func ExampleTyped() {
	type params struct {
		Text  string `json:"text" jsonschema:"description=What to repeat"`
		Times int    `json:"times,omitempty" jsonschema:"minimum=1,default=3"`
	}
	repeat, err := tools.Typed(schemas.ToolDefinition{Name: "repeat", Description: "Repeats a text.",
		Effect: schemas.EffectReadOnly},
		func(_ context.Context, _ tools.Call, p params) (schemas.ToolResult, error) {
			return schemas.TextResult(strings.Repeat(p.Text, p.Times)), nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	var schema bytes.Buffer
	if err := json.Indent(&schema, repeat.Parameters, "", "  "); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(schema.String())
	result, isError := repeat.Run(context.Background(), tools.Call{Arguments: json.RawMessage(`{"text":"ho "}`)}, nil)
	fmt.Println(result.Content.JoinText(), isError)
	// Output:
	// {
	//   "properties": {
	//     "text": {
	//       "type": "string",
	//       "description": "What to repeat"
	//     },
	//     "times": {
	//       "type": "integer",
	//       "minimum": 1,
	//       "default": 3
	//     }
	//   },
	//   "type": "object",
	//   "required": [
	//     "text"
	//   ]
	// }
	// ho ho ho  false
}
