package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// A Func executes a call whose arguments have been decoded into a P. Context, call and error have the meaning that
// they have for [Tool].Execute.
type Func[P any] func(ctx context.Context, call Call, params P) (schemas.ToolResult, error)

// Typed makes a tool from a function. Its parameters are the fields of the struct P, named by their json tags. The
// JSON Schema that models receive is derived from P, unless the definition has its own in Parameters, which must then
// match P. Label, effect class, time limit, execution mode and the other members of the definition are used
// unchanged.
//
// Tags add what a type cannot express:
//
//	City string `json:"city" jsonschema_description:"Name, in any language"`
//	Unit string `json:"unit,omitempty" jsonschema:"enum=celsius,enum=fahrenheit,default=celsius"`
//	Days int    `json:"days,omitempty" jsonschema:"minimum=1,maximum=14,default=3"`
//
// A field is required unless its json tag has omitempty or omitzero, or it has a default. If an argument is missing,
// the function receives the default of the field of P. Also supported are description (which ends at a comma), title,
// example, minLength, maxLength, pattern, format, minItems, maxItems, uniqueItems, multipleOf, exclusiveMinimum and
// exclusiveMaximum. Arguments that P does not have are ignored, including those that differ from a field only in
// case: the function receives exactly what was validated and approved. A time.Duration would be a number of
// nanoseconds; prefer a number whose name contains its unit.
//
// The function is called only with arguments that satisfy the schema; a call with others gets an error result that
// explains what is wrong. Typed returns an error that names the field of P, or the part of the definition, that
// cannot be used.
func Typed[P any](def schemas.ToolDefinition, run Func[P]) (Tool, error) {
	tool, err := typed(def, run)
	if err != nil {
		return Tool{}, fmt.Errorf("tool %q: %w", def.Name, err)
	}
	return tool, nil
}

// Must returns the tool, and panics if err is not nil. It is for tools whose definition is part of the program.
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

// argumentReader decodes a call's arguments into a P.
type argumentReader[P any] struct {
	tool     string
	schema   *toolargs.Schema
	defaults json.RawMessage // of optional fields; nil if there are none
}

// read validates and decodes the arguments. The sender may have validated them by the schema of another version.
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
