package sessionfile

import (
	"encoding/json"
	"strconv"
)

// Migrate converts the entries of a file, its header first, to version 3, in place, and reports whether it changed any.
// Version 1 has no ids: each entry gets one, and the entry before it as its parent. A newer version is not changed.
func Migrate(entries []*Entry) bool {
	version := versionOf(entries)
	if version >= Version {
		return false
	}
	if version < 2 {
		addIDs(entries)
	}
	for _, e := range entries {
		if e.Type == TypeSession {
			e.members.set("version", json.RawMessage(strconv.Itoa(Version)))
			continue
		}
		if e.Role() == "hookMessage" {
			m := e.message()
			m.add("role", "custom")
			e.members.add("message", m)
		}
	}
	return true
}

// versionOf returns the version that the first header names, 1 if it names none.
func versionOf(entries []*Entry) float64 {
	version := 1.0
	for _, e := range entries {
		if e.Type == TypeSession {
			if raw := e.Get("version"); raw != nil && string(raw) != "null" && json.Unmarshal(raw, &version) != nil {
				return Version // not a number: do not migrate
			}
			break
		}
	}
	return version
}

func addIDs(entries []*Entry) {
	taken, parent := map[string]bool{}, ""
	for _, e := range entries {
		if e.Type == TypeSession {
			continue
		}
		e.ID = newID(func(id string) bool { return taken[id] })
		taken[e.ID] = true
		e.members.add("id", e.ID)
		e.members.set("parentId", parentJSON(parent))
		e.Parent, parent = parent, e.ID
		if e.Type == TypeCompaction {
			keepByID(e, entries)
		}
	}
}

// keepByID replaces a compaction's index of the first kept entry, which counts the header as 0, with that entry's id.
// If that entry comes later it has no id yet, and nothing is kept.
func keepByID(e *Entry, entries []*Entry) {
	const name = "firstKeptEntryIndex"
	var index float64
	raw := e.Get(name)
	if raw == nil || json.Unmarshal(raw, &index) != nil {
		return
	}
	e.members.remove(name)
	if i := int(index); index == float64(i) && i >= 0 && i < len(entries) {
		if kept := entries[i]; kept.Type != TypeSession && kept.ID != "" {
			e.members.add("firstKeptEntryId", kept.ID)
		}
	}
}
