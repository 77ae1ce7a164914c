package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// A Func carries out a call whose arguments have been read into a P. Context, call and error are those of
// [Tool].Execute.
type Func[P any] func(ctx context.Context, call Call, params P) (schemas.ToolResult, error)

// Typed makes a tool of a function. Its parameters are the members of the struct P, by their json tags; the JSON Schema
// that models get is derived from P, unless the definition brings one in Parameters, which then has to fit P. The
// definition's other members are taken as they are: label, effect class, time limit, execution mode.
//
// Tags say what a type cannot:
//
//	City string `json:"city" jsonschema_description:"Name, in any language"`
//	Unit string `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit,default=celsius"`
//	Days int    `json:"days,omitempty" jsonschema:"minimum=1,maximum=14,default=3"`
//
// A member is required unless its json tag has omitempty or omitzero, or it has a default. The default of a member of P
// itself is what the function gets where the member is left out. There are also description (which ends at a comma),
// title, example, minLength, maxLength, pattern, format, minItems, maxItems, uniqueItems, multipleOf, exclusiveMinimum
// and exclusiveMaximum. Members that P does not have are let through and ignored, also those that differ from P's in
// case alone: what was checked, and agreed to, is what the function gets. A time.Duration would be a number of
// nanoseconds: better a number whose name says its unit.
//
// The function is called with arguments that satisfy the schema only; others are answered with an error result that
// says what is wrong with them. The error of Typed says which member of P, or what of the definition, cannot be used.
func Typed[P any](def schemas.ToolDefinition, run Func[P]) (Tool, error) {
	tool, err := typed(def, run)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %q: %w", def.Name, err)
	}
	return tool, nil
}

// Must returns the tool, and panics if there is an error: for tools whose definition is part of the program.
func Must(tool Tool, err error) Tool {
	if err != nil {
		panic(err)
	}
	return tool
}

func typed[P any](def schemas.ToolDefinition, run Func[P]) (Tool, error) {
	if run == nil {
		return Tool{}, errors.New("no function given")
	}
	if err := schemas.CheckToken("tool", def.Name); err != nil {
		return Tool{}, err
	}
	var defaults json.RawMessage
	if len(def.Parameters) == 0 {
		var err error
		if def.Parameters, defaults, err = parametersOf[P](); err != nil {
			return Tool{}, err
		}
	}
	schema, err := toolargs.Compile(def.Parameters)
	if err != nil {
		return Tool{}, err
	}
	reader := argumentReader[P]{def.Name, schema, defaults}
	return Tool{ToolDefinition: def, Execute: func(ctx context.Context, call Call) (schemas.ToolResult, error) {
		params, err := reader.read(ctx, call)
		if err != nil {
			return schemas.ToolResult{}, err
		}
		return run(ctx, call, params)
	}}, nil
}

// argumentReader makes a P of a call's arguments.
type argumentReader[P any] struct {
	tool     string
	schema   *toolargs.Schema
	defaults json.RawMessage // of members that may be left out; nil if there are none
}

// read checks the arguments, which the sender of the call may have validated by the schema of another version.
func (r argumentReader[P]) read(ctx context.Context, call Call) (params P, err error) {
	if call.Arguments, err = r.schema.Validate(ctx, r.tool, call.Arguments); err != nil {
		return params, err
	}
	if r.defaults != nil {
		if err := json.Unmarshal(r.defaults, &params); err != nil {
			return params, fmt.Errorf("defaults: %w", err)
		}
	}
	if err := toolargs.Decode(call.Arguments, &params); err != nil {
		return params, fmt.Errorf("invalid arguments: %w", err)
	}
	return params, nil
}
