package sessionfile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An Info is a session in a list.
type Info struct {
	Path              string    `json:"path"`
	ID                string    `json:"id"`
	CWD               string    `json:"cwd"`
	Name              string    `json:"name,omitempty"`
	ParentSessionPath string    `json:"parentSessionPath,omitempty"`
	Created           time.Time `json:"created"`
	// Modified is the time of the last message; without one, that of the session or the file.
	Modified     time.Time `json:"modified"`
	MessageCount int       `json:"messageCount"`
	// FirstMessage is the text of the user's first message, AllMessagesText that of all messages of user and model.
	FirstMessage    string `json:"firstMessage"`
	AllMessagesText string `json:"allMessagesText"`
}

// List returns all sessions in a directory, latest activity first. It leaves out files without a session.
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

// escapeGlob escapes a directory's name for a pattern.
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
	var texts []string
	var active int64
	for _, e := range lines {
		switch e.Type {
		case TypeName:
			info.Name = trim(e.Text("name"))
		case TypeMessage:
			info.MessageCount++
			active = max(active, e.chatTime())
			text := e.chatText()
			if text == "" {
				continue
			}
			if info.FirstMessage == "" && e.Role() == "user" {
				info.FirstMessage = text
			}
			texts = append(texts, text)
		}
	}
	if active > 0 {
		info.Modified = time.UnixMilli(active).UTC()
	}
	if info.FirstMessage == "" {
		info.FirstMessage = "(no messages)"
	}
	info.AllMessagesText = strings.Join(texts, " ")
	return info, true, nil
}

// chatText returns the text of a user's or a model's message, or "" for another entry.
func (e *Entry) chatText() string {
	if role := e.Role(); role != "user" && role != "assistant" {
		return ""
	}
	return contentText(e.message().get("content"), " ")
}

// chatTime returns the time of a user's or a model's message in Unix milliseconds, or 0 for another entry.
func (e *Entry) chatTime() int64 {
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
