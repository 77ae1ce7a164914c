package compaction

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/loopbus/loopbus/schemas"
)

// FileLists are the files that a summary lists: those that were only read, and those that were written or edited. They
// are the details of a compaction and of a branch summary.
type FileLists struct {
	ReadFiles     []string `json:"readFiles"`
	ModifiedFiles []string `json:"modifiedFiles"`
}

// Text returns the text that the lists add to the end of a summary, "" if they are empty.
func (l FileLists) Text() string {
	return fileSection("read-files", l.ReadFiles) + fileSection("modified-files", l.ModifiedFiles)
}

func fileSection(tag string, files []string) string {
	if len(files) == 0 {
		return ""
	}
	return "\n\n<" + tag + ">\n" + strings.Join(files, "\n") + "\n</" + tag + ">"
}

// Files holds the sets of paths that were read, written and edited.
type Files struct {
	Read, Written, Edited map[string]bool
}

// NewFiles returns a set without files.
func NewFiles() Files {
	return Files{Read: map[string]bool{}, Written: map[string]bool{}, Edited: map[string]bool{}}
}

// Lists returns the two lists, each sorted by UTF-16 units. Neither is nil.
func (f Files) Lists() FileLists {
	modified := maps.Clone(f.Edited)
	maps.Copy(modified, f.Written)
	read := maps.Clone(f.Read)
	maps.DeleteFunc(read, func(path string, _ bool) bool { return modified[path] })
	return FileLists{ReadFiles: Sorted(read), ModifiedFiles: Sorted(modified)}
}

// Sorted returns the members of a set sorted by UTF-16 units. The list is never nil.
func Sorted(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for path := range set {
		list = append(list, path)
	}
	slices.SortFunc(list, func(a, b string) int {
		return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
	})
	return list
}

// summary adds the files that an earlier summary lists, unless a service made it.
func (f Files) summary(e Entry) {
	if e.FromHook {
		return
	}
	for _, path := range e.Files.ReadFiles {
		f.Read[path] = true
	}
	for _, path := range e.Files.ModifiedFiles {
		f.Edited[path] = true
	}
}

// calls adds the files that a message's calls name.
func (f Files) calls(m schemas.Message) {
	a, ok := m.(*schemas.AssistantMessage)
	if !ok {
		return
	}
	for _, call := range a.Content.ToolCalls() {
		path := pathOf(call)
		if path == "" {
			continue
		}
		switch call.Name {
		case "read":
			f.Read[path] = true
		case "write":
			f.Written[path] = true
		case "edit":
			f.Edited[path] = true
		}
	}
}

func pathOf(call schemas.ToolCall) (path string) {
	args, _ := members(call.Arguments)
	for _, m := range args {
		if m.key == "path" && json.Unmarshal(m.value, &path) != nil {
			return ""
		}
	}
	return path
}
