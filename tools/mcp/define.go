package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

const (
	maxDescription = 16 << 10 // bytes
	maxLabel       = 256      // characters
)

// define makes a definition of a server's tool, still without a name, or says why models cannot use it.
func define(t *sdk.Tool) (schemas.ToolDefinition, error) {
	def := schemas.ToolDefinition{
		Label: t.Title, Description: cut(strings.ToValidUTF8(t.Description, "\uFFFD"), maxDescription),
		Effect: schemas.EffectUnsafe, Annotations: annotations(t),
	}
	if a := t.Annotations; a != nil {
		def.Label = cmp.Or(def.Label, a.Title)
		switch {
		case a.ReadOnlyHint:
			def.Effect = schemas.EffectReadOnly
		case a.IdempotentHint:
			def.Effect = schemas.EffectIdempotent
		}
	}
	def.Label = firstRunes(cmp.Or(def.Label, t.Name), maxLabel)
	parameters, err := json.Marshal(t.InputSchema)
	if err != nil {
		return def, fmt.Errorf("its input schema: %w", err)
	}
	if !bytes.HasPrefix(parameters, []byte("{")) {
		return def, errors.New("its input schema is no object")
	}
	if err := toolargs.Check(parameters); err != nil {
		return def, fmt.Errorf("its input schema: %w", err)
	}
	def.Parameters = parameters
	return def, nil
}

// annotations passes on what a server says, and nothing where it says nothing.
func annotations(t *sdk.Tool) *schemas.ToolAnnotations {
	a := t.Annotations
	if a == nil {
		return nil
	}
	return &schemas.ToolAnnotations{
		Title: firstRunes(a.Title, maxLabel), ReadOnlyHint: &a.ReadOnlyHint, DestructiveHint: a.DestructiveHint,
		IdempotentHint: &a.IdempotentHint, OpenWorldHint: a.OpenWorldHint,
	}
}

// cut shortens a text to at most so many bytes, and says so.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const notice = " [cut]"
	return strings.ToValidUTF8(text[:most-len(notice)], "") + notice
}

func firstRunes(text string, most int) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	return string(runes[:min(len(runes), most)])
}
