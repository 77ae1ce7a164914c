package page

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"regexp"
	"slices"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// A view is the shown part of a session: the path to its leaf, and the entries of other branches.
type view struct {
	Title, ID, CWD, Started, Parent string
	Way                             []item
	Branches                        []branch
}

// A branch contains the entries on the path to a leaf that were not shown before. From is the entry that it begins
// below, "" for none.
type branch struct {
	From string
	Way  []item
}

// An item is an entry.
type item struct {
	ID, Time, Label, Who, Class string
	Blocks                      []block
}

// A block is a part of an entry: a text, or a picture.
type block struct {
	Title  string
	Text   string
	Image  template.URL
	Folded bool
}

func viewOf(s *sessionfile.Session) view {
	h := s.Header()
	v := view{Title: s.Name(), ID: h.ID, CWD: h.Text("cwd"), Started: h.Text("timestamp"), Parent: h.Text("parentSession")}
	if v.Title == "" {
		v.Title = "Session " + h.ID
	}
	shown := map[string]bool{}
	// show returns the entries on the path to an entry that were not shown before, and the last one that was. An entry
	// is shown together with its ancestors, so the path stops at the first shown entry: each entry is visited once,
	// however many branches a long path has.
	show := func(e *sessionfile.Entry) (from string, way []item) {
		for ; e != nil; e = s.Parent(e) {
			if shown[e.ID] {
				from = e.ID
				break
			}
			shown[e.ID] = true
			way = append(way, itemOf(s, e))
		}
		slices.Reverse(way)
		return from, way
	}
	_, v.Way = show(s.Entry(s.Leaf()))
	inner := map[string]bool{}
	for _, e := range s.Entries() {
		if p := s.Parent(e); p != nil {
			inner[p.ID] = true
		}
	}
	for _, e := range s.Entries() {
		if inner[e.ID] || shown[e.ID] {
			continue
		}
		from, way := show(e)
		v.Branches = append(v.Branches, branch{from, way})
	}
	return v
}

func itemOf(s *sessionfile.Session, e *sessionfile.Entry) item {
	it := item{ID: e.ID, Time: e.Text("timestamp"), Who: string(e.Type), Class: "other"}
	if l := s.Label(e.ID); l != nil {
		it.Label = l.Label
	}
	switch e.Type {
	case sessionfile.TypeMessage, sessionfile.TypeCustomMessage, sessionfile.TypeBranchSummary, sessionfile.TypeCompaction:
		it.message(e.Shown())
	case sessionfile.TypeModel:
		it.text("model", e.Text("provider")+" "+e.Text("modelId"))
	case sessionfile.TypeThinkingLevel:
		it.text("thinking level", e.Text("thinkingLevel"))
	case sessionfile.TypeName:
		it.text("name", e.Text("name"))
	case sessionfile.TypeLabel:
		it.text("label of "+e.Text("targetId"), e.Text("label"))
	default:
		it.text(e.Text("customType"), indented(e.Get("data")))
	}
	return it
}

func (it *item) text(title, text string) {
	it.Blocks = append(it.Blocks, block{Title: title, Text: text})
}

// message shows a message of any role. A message that cannot be decoded is shown as its JSON.
func (it *item) message(raw json.RawMessage) {
	m, err := schemas.DecodeMessage(raw)
	if err != nil {
		it.text("", string(raw))
		return
	}
	it.Who = string(m.MessageRole())
	switch m := m.(type) {
	case *schemas.UserMessage:
		it.Class = "user"
		it.contents(m.Content)
	case *schemas.AssistantMessage:
		it.Class, it.Who = "assistant", "assistant "+m.Provider+" "+m.Model
		it.contents(m.Content)
		if m.Failed() || m.StopReason == schemas.StopLength {
			it.text(string(m.StopReason), m.ErrorMessage)
		}
	case *schemas.ToolResultMessage:
		it.Class, it.Who = "tool", "result of "+m.ToolName
		if m.IsError {
			it.Class, it.Who = "tool error", "error of "+m.ToolName
		}
		it.contents(m.Content)
		for i := range it.Blocks {
			it.Blocks[i].Folded = len(it.Blocks[i].Text) > 2000
		}
	case *schemas.CustomMessage:
		it.custom(m)
	}
}

func (it *item) custom(m *schemas.CustomMessage) {
	var c struct {
		CustomType, Summary, Command, Output string
		Content                              schemas.Contents
	}
	_ = json.Unmarshal(m.Raw, &c)
	switch {
	case c.Summary != "":
		it.Class = "summary"
		it.text("", c.Summary)
	case c.Command != "":
		it.text("$ "+c.Command, c.Output)
	case len(c.Content) > 0:
		it.Who += " " + c.CustomType
		it.contents(c.Content)
	default:
		it.text("", indented(m.Raw))
	}
}

func (it *item) contents(contents schemas.Contents) {
	for _, c := range contents {
		switch c := c.(type) {
		case schemas.Text:
			it.text("", c.Text)
		case schemas.Thinking:
			it.Blocks = append(it.Blocks, block{Title: "thinking", Text: c.Thinking, Folded: true})
		case schemas.ToolCall:
			it.text("call of "+c.Name, indented(c.Arguments))
		case schemas.Image:
			it.Blocks = append(it.Blocks, picture(c))
		}
	}
}

// pictures are the image types that browsers show without running code.
var pictures = regexp.MustCompile(`^image/(png|jpeg|gif|webp)$`)

func picture(c schemas.Image) block {
	data, err := base64.StdEncoding.DecodeString(c.Data)
	if err != nil || !pictures.MatchString(c.MimeType) {
		return block{Title: "picture", Text: fmt.Sprintf("%s, %d characters of data, not shown", c.MimeType, len(c.Data))}
	}
	url := "data:" + c.MimeType + ";base64," + base64.StdEncoding.EncodeToString(data)
	title := fmt.Sprintf("picture, %s, %d bytes", c.MimeType, len(data))
	return block{Title: title, Image: template.URL(url)} // safe: the type and the characters were checked
}

func indented(raw json.RawMessage) string { return string(cli.Indented(raw)) }
