package sessionfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An Info is what a list of sessions says of one.
type Info struct {
	Path              string    `json:"path"`
	ID                string    `json:"id"`
	CWD               string    `json:"cwd"`
	Name              string    `json:"name,omitempty"`
	ParentSessionPath string    `json:"parentSessionPath,omitempty"`
	Created           time.Time `json:"created"`
	// Modified is when somebody last said something; failing that, when the session or the file was made.
	Modified     time.Time `json:"modified"`
	MessageCount int       `json:"messageCount"`
	// FirstMessage is what the user said first; AllMessagesText is all that user and model said.
	FirstMessage    string `json:"firstMessage"`
	AllMessagesText string `json:"allMessagesText"`
}

// List tells of all sessions in a directory, the last active one first. Files that hold no session are left out.
func List(dir string) ([]Info, error) {
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.jsonl"))
	if err != nil {
		return nil, err
	}
	list := []Info{}
	for _, path := range files {
		info, ok, err := infoOf(path)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, info)
		}
	}
	slices.SortStableFunc(list, func(a, b Info) int { return b.Modified.Compare(a.Modified) })
	return list, nil
}

// escapeGlob lets a directory's name stand for itself in a pattern.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

func infoOf(path string) (Info, bool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Info{}, false, err
	}
	stat, err := os.Stat(path)
	if err != nil {
		return Info{}, false, err
	}
	lines, _ := Parse(text)
	if len(lines) == 0 || lines[0].Type != TypeSession {
		return Info{}, false, nil
	}
	h := lines[0]
	info := Info{
		Path: path, ID: h.ID, CWD: h.Text("cwd"), ParentSessionPath: h.Text("parentSession"),
		Modified: stat.ModTime(),
	}
	if t, ok := h.Time(); ok {
		info.Created, info.Modified = t, t
	}
	var said []string
	var active int64
	for _, e := range lines {
		switch e.Type {
		case TypeName:
			info.Name = trim(e.Text("name"))
		case TypeMessage:
			info.MessageCount++
			active = max(active, e.saidAt())
			text := e.said()
			if text == "" {
				continue
			}
			if info.FirstMessage == "" && e.Role() == "user" {
				info.FirstMessage = text
			}
			said = append(said, text)
		}
	}
	if active > 0 {
		info.Modified = time.UnixMilli(active).UTC()
	}
	if info.FirstMessage == "" {
		info.FirstMessage = "(no messages)"
	}
	info.AllMessagesText = strings.Join(said, " ")
	return info, true, nil
}

// said is the text of a user's or a model's message.
func (e *Entry) said() string {
	if role := e.Role(); role != "user" && role != "assistant" {
		return ""
	}
	return contentText(e.message().get("content"), " ")
}

// saidAt is when a user or a model said something, in Unix milliseconds.
func (e *Entry) saidAt() int64 {
	role, m := e.Role(), e.message()
	if role != "user" && role != "assistant" || m.get("content") == nil {
		return 0
	}
	var ms float64
	if raw := m.get("timestamp"); raw != nil && json.Unmarshal(raw, &ms) == nil && string(raw) != "null" {
		return int64(ms)
	}
	if t, ok := e.Time(); ok {
		return t.UnixMilli()
	}
	return 0
}
