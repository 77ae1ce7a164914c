// Package cached compiles the parameters of tools and remembers the schemas that were used last, for the whole process:
// sessions have the same tools, and compiling a schema takes a thousand times as long as validating by it.
package cached

import (
	"container/list"
	"context"
	"encoding/json"
	"sync"

	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/schemas/turns"
)

// mostCost limits the cost of all remembered schemas, about 25 MB. An ordinary schema costs less than a hundred.
const mostCost = 500_000

var process = newCache(mostCost)

// Compile returns what [toolargs.Compile] returns. It may be called concurrently.
func Compile(parameters json.RawMessage) (*toolargs.Schema, error) { return process.schema(parameters) }

// cache remembers compiled schemas by their text. Beyond the limit it forgets those whose last use is longest ago. It
// is safe for concurrent use.
type cache struct {
	most int

	mu     sync.Mutex
	cost   int
	byText map[string]*list.Element
	newest list.List // of *cacheEntry, by their last use
}

type cacheEntry struct {
	text   string
	schema *toolargs.Schema
}

func newCache(most int) *cache { return &cache{most: most, byText: make(map[string]*list.Element)} }

func (c *cache) schema(parameters json.RawMessage) (*toolargs.Schema, error) {
	if s := c.find(parameters); s != nil {
		return s, nil
	}
	s, err := compile(parameters) // not under the lock; two may compile the same
	if err == nil {
		c.add(string(parameters), s)
	}
	return s, err
}

// compiling limits the schemas that are compiled at once: some tens of bytes may leave megabytes of garbage.
var compiling = turns.New[struct{}](2)

func compile(parameters json.RawMessage) (*toolargs.Schema, error) {
	leave, err := compiling.Wait(context.Background(), struct{}{}, 1) // it is a matter of milliseconds
	if err != nil {
		return nil, err
	}
	defer leave()
	return toolargs.Compile(parameters)
}

func (c *cache) find(parameters json.RawMessage) *toolargs.Schema {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byText[string(parameters)]
	if e == nil {
		return nil
	}
	c.newest.MoveToFront(e)
	return e.Value.(*cacheEntry).schema
}

func (c *cache) add(text string, s *toolargs.Schema) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byText[text] != nil {
		return
	}
	c.byText[text] = c.newest.PushFront(&cacheEntry{text, s})
	for c.cost += s.Cost(); c.cost > c.most && c.newest.Len() > 1; {
		oldest := c.newest.Remove(c.newest.Back()).(*cacheEntry)
		delete(c.byText, oldest.text)
		c.cost -= oldest.schema.Cost()
	}
}
