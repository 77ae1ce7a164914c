package index

import (
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// contents is what has been received of the bucket. It is not safe for concurrent use.
type contents struct {
	list       *list
	children   map[string]map[string]bool // ids of a session's branches, by its id
	revision   uint64                     // up to which the bucket has been followed
	gone       map[string]uint64          // revisions at which entries were deleted
	covered    map[string]uint64          // revisions of invalid values stored over entries
	fences     map[string]uint64          // revisions of keys whose change was written and not received yet
	checkpoint uint64                     // every message of the log up to here is indexed
	before     *contents                  // nil, or what was known of the bucket until it was read again
}

func newContents(before *contents) *contents {
	return &contents{list: newList(), children: make(map[string]map[string]bool), gone: make(map[string]uint64),
		covered: make(map[string]uint64), fences: make(map[string]uint64), before: before}
}

// take processes a change of the bucket. Keys that are not those of this version are ignored.
func (c *contents) take(m natsio.Stored) {
	key := strings.TrimPrefix(m.Subject, subjectPrefix)
	session, isEntry := strings.CutPrefix(key, keyPrefix)
	removed := natsio.Removed(m.Header)
	switch {
	case key == keyCheckpoint:
		at, err := strconv.ParseUint(string(m.Data), 10, 64)
		if err == nil || removed { // anything else is a server's answer to a forged request
			c.checkpoint = at
		}
	case !isEntry || strings.Contains(session, ".") || !natsio.Literal(m.Subject):
		return
	case removed:
		delete(c.covered, session)
		c.remove(session, m.Sequence)
	default:
		c.takeEntry(session, m)
	}
	if fence, ok := c.fences[session]; ok && fence <= m.Sequence {
		delete(c.fences, session)
	}
	c.revision = max(c.revision, m.Sequence)
}

func (c *contents) takeEntry(session string, m natsio.Stored) {
	entry, err := decodeEntry(session, m.Data)
	if err != nil {
		c.cover(session, m.Sequence)
		return
	}
	delete(c.covered, session)
	entry.revision = m.Sequence
	c.put(entry)
}

// cover records an invalid value over a session's entry, which stays what it was.
func (c *contents) cover(session string, revision uint64) {
	if c.before != nil && c.list.get(session) == nil {
		if e := c.before.list.get(session); e != nil {
			c.put(e)
		}
	}
	if schemas.CheckSession(session) == nil && (c.list.get(session) != nil || len(c.covered) < maxCovered) {
		c.covered[session] = revision
	}
}

// put replaces an entry.
func (c *contents) put(e *Entry) {
	session := e.Summary.Session
	delete(c.gone, session)
	c.unlink(c.list.get(session))
	c.list.put(e)
	if p := e.Summary.Parent; p != nil {
		if c.children[p.Session] == nil {
			c.children[p.Session] = make(map[string]bool)
		}
		c.children[p.Session][session] = true
	}
}

// remove removes an entry because of a revision of the bucket.
func (c *contents) remove(session string, revision uint64) {
	c.gone[session] = revision
	if old := c.list.get(session); old != nil {
		c.unlink(old)
		c.list.remove(session)
	}
}

func (c *contents) unlink(old *Entry) {
	if old == nil || old.Summary.Parent == nil {
		return
	}
	siblings := c.children[old.Summary.Parent.Session]
	if delete(siblings, old.Summary.Session); len(siblings) == 0 {
		delete(c.children, old.Summary.Parent.Session)
	}
}
