package sessionfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var repeated = regexp.MustCompile(`\{\s*"repeat"\s*:\s*"((?:[^"\\]|\\.)*)"\s*,\s*"count"\s*:\s*(\d+)\s*\}`)

// expanded replaces {"repeat": text, "count": n} by n times the text. Everything else is unchanged, also the order of
// members.
func expanded(t *testing.T, data []byte) []byte {
	t.Helper()
	return repeated.ReplaceAllFunc(data, func(match []byte) []byte {
		part := repeated.FindSubmatch(match)
		count, err := strconv.Atoi(string(part[2]))
		if err != nil {
			t.Fatal(err)
		}
		return slices.Concat([]byte{'"'}, bytes.Repeat(part[1], count), []byte{'"'})
	})
}

// walk replaces each part of a value, inner parts first.
func walk(v any, replace func(any) any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = walk(v[i], replace)
		}
	case map[string]any:
		for k := range v {
			v[k] = walk(v[k], replace)
		}
	}
	return replace(v)
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// clockStart is the time at which cases are played. No case contains it.
var clockStart = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)

var (
	isoTimes  = regexp.MustCompile(`2031-05-06T07[:-]08[:-]\d\d[.-]\d{3}Z`)
	sessionID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
)

// A normaliser replaces random ids and times in results.
type normaliser struct {
	dir      string
	ids      []string
	sessions []string
}

// made records the ids of entries that were made.
func (n *normaliser) made(id string) { n.ids = append(n.ids, id) }

// given replaces the placeholders for ids and directories in the input of a case.
func (n *normaliser) given(text string) string {
	for i, id := range n.ids {
		text = strings.ReplaceAll(text, fmt.Sprintf("new%05d", i+1), id)
	}
	return strings.ReplaceAll(text, "{{DIR}}", n.dir)
}

// normal returns a result in the form of the recordings.
func (n *normaliser) normal(t *testing.T, v any) any {
	t.Helper()
	var plain any
	if err := json.Unmarshal(marshal(t, v), &plain); err != nil {
		t.Fatal(err)
	}
	return walk(plain, func(v any) any {
		switch v := v.(type) {
		case float64:
			if since := int64(v) - clockStart.UnixMilli(); since >= 0 && since < time.Minute.Milliseconds() {
				return "{{TIME}}"
			}
		case string:
			return short(n.text(v))
		}
		return v
	})
}

func (n *normaliser) text(s string) string {
	if cwd, err := os.Getwd(); err == nil && s == cwd {
		return "{{CWD}}"
	}
	if n.dir != "" {
		s = strings.ReplaceAll(s, n.dir, "{{DIR}}")
	}
	s = isoTimes.ReplaceAllString(s, "{{TIME}}")
	s = sessionID.ReplaceAllStringFunc(s, func(id string) string {
		for i, known := range n.sessions {
			if known == id {
				return fmt.Sprintf("{{SESSION%d}}", i+1)
			}
		}
		n.sessions = append(n.sessions, id)
		return fmt.Sprintf("{{SESSION%d}}", len(n.sessions))
	})
	for i, id := range n.ids {
		s = strings.ReplaceAll(s, id, fmt.Sprintf("{{ID%d}}", i+1))
	}
	return s
}

// short returns a text in the form of the recordings: a text of more than 2000 bytes as its length, its hash and its
// ends.
func short(s string) any {
	if len(s) <= 2000 {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	points := []rune(s)
	return map[string]any{
		"bytes": float64(len(s)), "sha256": hex.EncodeToString(sum[:]),
		"head": string(points[:min(80, len(points))]), "tail": string(points[max(0, len(points)-240):]),
	}
}
