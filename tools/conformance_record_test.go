package tools_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

func (s *stage) recordedFile(data string) any {
	if !utf8.ValidString(data) {
		return map[string]any{"b64": base64.StdEncoding.EncodeToString([]byte(data))}
	}
	return shorten(s.blank(data))
}

func (s *stage) spills(t *testing.T) []any {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.temp, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var list []any
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, digest(data))
	}
	return list
}

// recordedResult writes a result as the recordings do: placeholders, long texts and images shortened. First it is
// changed by adjust, unless that is nil: long texts are whole there, and have their placeholders.
func (s *stage) recordedResult(t *testing.T, r schemas.ToolResult, adjust func(map[string]any)) map[string]any {
	t.Helper()
	raw, err := schemas.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	v = mapTexts(v, s.blank).(map[string]any)
	if adjust != nil {
		adjust(v)
	}
	blocks, _ := v["content"].([]any)
	scaled := strings.Contains(r.Content.JoinText(), "[Image: original ")
	for _, b := range blocks {
		block, _ := b.(map[string]any)
		if block["type"] != "image" {
			continue
		}
		data, err := base64.StdEncoding.DecodeString(block["data"].(string))
		if err != nil {
			t.Fatal(err)
		}
		block["data"] = digest(data)
		if scaled {
			block["data"] = map[string]any{"resized": true}
		}
	}
	return mapTexts(v, shorten).(map[string]any)
}

// mapTexts replaces all texts in a JSON value.
func mapTexts[T any](v any, change func(string) T) any {
	switch v := v.(type) {
	case string:
		return change(v)
	case []any:
		for i := range v {
			v[i] = mapTexts(v[i], change)
		}
	case map[string]any:
		for k := range v {
			v[k] = mapTexts(v[k], change)
		}
	}
	return v
}

const longText = 2000 // bytes

// shorten writes a long text as its size, hash, first and last characters.
func shorten(text string) any {
	if len(text) <= longText {
		return text
	}
	d := digest([]byte(text))
	runes := []rune(text)
	d["head"], d["tail"] = string(runes[:min(80, len(runes))]), string(runes[max(0, len(runes)-240):])
	return d
}

func digest(data []byte) map[string]any {
	sum := sha256.Sum256(data)
	return map[string]any{"bytes": len(data), "sha256": hex.EncodeToString(sum[:])}
}

func sortedLines(lines []string) string {
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// countKnown counts lines that are candidates; any other is shown.
func countKnown(lines, candidates []string) any {
	for _, line := range lines {
		if !slices.Contains(candidates, line) {
			return line
		}
	}
	return len(lines)
}

// normalised brings a value to what JSON makes of it; the order of spills is chance.
func normalised(t *testing.T, e expectation) any {
	t.Helper()
	slices.SortFunc(e.Spills, func(a, b any) int {
		return strings.Compare(a.(map[string]any)["sha256"].(string), b.(map[string]any)["sha256"].(string))
	})
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
