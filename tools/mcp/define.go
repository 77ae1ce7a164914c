package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/tools"
)

const (
	maxDescription = 16 << 10  // bytes
	maxLabel       = 256       // characters
	maxPages       = 256       // of a list of tools: a server could send empty pages forever
	maxList        = 64 << 20  // bytes of all pages
	maxDefinitions = 512 << 10 // bytes of all definitions: those of all workers have 16 MiB, and models read them
)

// list requests the list of tools. It leaves out tools that models cannot use, and logs them.
func (b *Bridge) list(ctx context.Context, session *sdk.ClientSession) ([]tools.Tool, error) {
	var found []schemas.ToolDefinition // with the server's names
	var names []string
	seen, count, size, parameters := map[string]bool{}, 0, 0, 0
	for t, err := range b.definitions(ctx, session) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		if count++; count > b.o.MaxTools {
			b.log.Warn("the server has too many tools, the rest is left out", "most", b.o.MaxTools)
			break
		}
		def, err := define(t) // here, so that the page can be freed
		switch {
		case seen[t.Name]:
			err = errTwice
		case len(t.Name) > maxDescription:
			err = errLongName
		}
		if err != nil {
			b.log.Warn("tool left out", "tool", firstRunes(t.Name, maxLabel), "err", err)
			continue
		}
		seen[t.Name] = true
		found, names = append(found, def), append(names, t.Name)
		if parameters += len(def.Parameters); parameters > maxDefinitions { // checking the rest would be in vain
			break
		}
	}
	called := toolNames(b.o.Prefix, names)
	offered, now := []tools.Tool{}, map[string]string{}
	for i, def := range found {
		def.Name = called[names[i]]
		if !b.mayOffer(def.Name) {
			b.log.Warn("tool left out", "tool", firstRunes(names[i], maxLabel), "err", errManyNames)
			continue
		}
		text, err := schemas.Marshal(def)
		if err != nil {
			b.log.Warn("tool left out", "tool", firstRunes(names[i], maxLabel), "err", err)
			continue
		}
		if size += len(text); size > maxDefinitions {
			b.log.Warn("the definitions of the server's tools are too long, the rest is left out", "most", maxDefinitions)
			break
		}
		def.Revision = revision(text)
		offered = append(offered, tools.Tool{ToolDefinition: def, Execute: b.execute(names[i])})
		now[names[i]] = def.Revision
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revisions = now
	return offered, nil
}

// namesPerTool is how many names a bridge offers in its life, as a multiple of MaxTools.
const namesPerTool = 4

// mayOffer reports whether a tool may have a name: one that was offered before, or one of the first of this bridge.
func (b *Bridge) mayOffer(name string) bool {
	if !b.offered[name] && len(b.offered) < namesPerTool*b.o.MaxTools {
		b.offered[name] = true
	}
	return b.offered[name]
}

// definitions yields the tools of all pages of a list. It yields an error if the list exceeds the limits.
func (b *Bridge) definitions(ctx context.Context, session *sdk.ClientSession) iter.Seq2[*sdk.Tool, error] {
	return func(yield func(*sdk.Tool, error) bool) {
		cursor, size := "", 0
		for range maxPages {
			page, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, t := range page.Tools {
				if !yield(t, nil) {
					return
				}
			}
			if cursor = page.NextCursor; cursor == "" {
				return
			}
			if data, err := json.Marshal(page); err != nil || size+len(data) > maxList { // the SDK may keep all pages
				b.log.Warn("the server's list of tools is too long, the rest is left out", "most", maxList)
				return
			} else {
				size += len(data)
			}
		}
		b.log.Warn("the server's list of tools has too many pages, the rest is left out", "most", maxPages)
	}
}

// define converts a server's tool to a definition without a name. The error says why models cannot use the tool.
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

// revision returns a digest of everything that is announced about a tool (decision 103).
func revision(definition []byte) string {
	sum := sha256.Sum256(definition)
	return hex.EncodeToString(sum[:16])
}

// annotations converts a server's annotations; nil if there are none.
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

// cut shortens a text to most bytes, and marks it as shortened.
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
