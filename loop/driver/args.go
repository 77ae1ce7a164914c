package driver

import (
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// argsCache keeps the compiled parameter schemas of the run's tools: compiling costs a thousand times what validating does.
type argsCache struct {
	byTool map[string]compiledArgs
}

type compiledArgs struct {
	parameters string
	schema     *toolargs.Schema
}

func (c *argsCache) compiled(def *schemas.ToolDefinition) (*toolargs.Schema, error) {
	if have, ok := c.byTool[def.Name]; ok && have.parameters == string(def.Parameters) {
		return have.schema, nil
	}
	schema, err := toolargs.Compile(def.Parameters)
	if err != nil {
		return nil, err
	}
	if c.byTool == nil {
		c.byTool = make(map[string]compiledArgs)
	}
	c.byTool[def.Name] = compiledArgs{string(def.Parameters), schema}
	return schema, nil
}
