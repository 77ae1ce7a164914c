package openaicompletions

import (
	"bytes"
	"encoding/json"

	"github.com/loopbus/loopbus/providers/internal/assemble"
)

// maxIDs limits the ids, and likewise the indexes, of calls that are kept, because a server may send several of them
// for one call.
const maxIDs = 10_000

// calls holds the tool calls of a reply. A delta belongs to the call with its index, or else with its id. A delta that
// has neither index nor id nor the name of a tool belongs to the last call.
type calls struct {
	s       *assemble.Stream
	byIndex map[int]*assemble.Block
	byID    map[string]*assemble.Block
	last    *assemble.Block
}

func newCalls(s *assemble.Stream) calls {
	return calls{s: s, byIndex: make(map[int]*assemble.Block), byID: make(map[string]*assemble.Block)}
}

func (c *calls) delta(d *callDelta) {
	block := c.find(d)
	if block == nil {
		block = c.s.OpenToolCall(d.ID, d.Function.Name)
	}
	c.last = block
	if d.Index != nil && len(c.byIndex) < maxIDs {
		c.byIndex[*d.Index] = block
	}
	c.identify(block, d.ID)
	block.Identify(d.ID, d.Function.Name)
	block.Delta(string(d.Function.Arguments))
}

// identify has the deltas with an id belong to the call.
func (c *calls) identify(block *assemble.Block, id string) {
	if id == "" || len(c.byID) >= maxIDs {
		return
	}
	if _, known := c.byID[id]; known || c.s.Keep(len(id)) {
		c.byID[id] = block
	}
}

// find returns the call that the delta belongs to, or nil if it begins a new one.
func (c *calls) find(d *callDelta) *assemble.Block {
	if d.Index != nil {
		if block := c.byIndex[*d.Index]; block != nil {
			return block
		}
	}
	if d.Index == nil && d.ID == "" && d.Function.Name == "" {
		return c.last
	}
	return c.byID[d.ID]
}

// sign stores encrypted reasoning as the signature of its call, because the server expects it back. It drops other
// details.
func (c *calls) sign(detail json.RawMessage) {
	var d struct {
		Type string          `json:"type"`
		ID   string          `json:"id"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(detail, &d) != nil || d.Type != "reasoning.encrypted" || len(d.Data) == 0 {
		return
	}
	var compact bytes.Buffer
	if block := c.byID[d.ID]; block != nil && json.Compact(&compact, detail) == nil {
		block.Sign(compact.String())
	}
}
