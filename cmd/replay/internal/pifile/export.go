package pifile

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// Export converts a log to a session file. cwd is the working directory that pi shows for the session; an imported
// session keeps its own.
func Export(session, cwd string, events iter.Seq2[schemas.Event, error]) (*sessionfile.Session, error) {
	x := &exporter{session: session, cwd: cwd, ids: map[string]string{}, taken: map[string]bool{}}
	for e, err := range events {
		if err == nil {
			err = x.add(e)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := x.endAtLeaf(); err != nil {
		return nil, err
	}
	return sessionfile.FromEntries(x.lines), nil
}

// An exporter folds a log into the lines of a file.
type exporter struct {
	session, cwd string
	lines        []*sessionfile.Entry
	tree         loop.Tree
	ids          map[string]string // ids of lines by ids of the tree's entries
	taken        map[string]bool   // ids of lines
	leaf, tail   string            // parent of the next entry: in the tree, and in the file
	last         schemas.Event

	model    schemas.ModelRef
	thinking schemas.ThinkingLevel

	imported uint64     // last event of the import
	importer string     // the source of those events
	paths    [][]string // ids of the lines of the remaining imported transcripts
}

func (x *exporter) add(e schemas.Event) (err error) {
	x.last = e
	if x.lines == nil {
		h, err := header(x.session, x.cwd, e.Time)
		if err != nil {
			return err
		}
		x.lines = append(x.lines, h)
	}
	if e.Seq <= x.imported && e.Source != x.importer { // the import was interrupted, and the session continued
		x.endImport(e.Seq - 1)
	}
	// An import is at the start of a log and begins with the lines. An event elsewhere is a client's, which may use any
	// customType.
	if d, ok := e.Data.(*schemas.Custom); ok && d.CustomType == fileType && (e.Seq == 1 || e.Seq <= x.imported) {
		if err := x.part(e, d); err != nil {
			return err
		}
	}
	nodes := x.tree.Apply(e)
	switch {
	case e.Seq <= x.imported:
		x.known(e, nodes)
	default:
		err = x.new(e, nodes)
	}
	if x.tree.Leaf != x.leaf {
		x.leaf, x.tail = x.tree.Leaf, x.ids[x.tree.Leaf]
	}
	if e.Seq == x.imported {
		x.endImport(e.Seq)
	}
	return err
}

// endImport makes the entries after the event continue below the last line of the file.
func (x *exporter) endImport(seq uint64) {
	x.imported, x.tail = seq, ""
	if len(x.lines) > 1 {
		x.tail = x.lines[len(x.lines)-1].ID
	}
}

// part adds lines of an imported file.
func (x *exporter) part(e schemas.Event, d *schemas.Custom) error {
	var p filePart
	if err := json.Unmarshal(d.Data, &p); err != nil {
		return fmt.Errorf("event %s: lines of an imported file: %w", e.ID(), err)
	}
	if p.First {
		x.lines = nil
	}
	for _, raw := range p.Lines {
		l, err := sessionfile.NewEntry(raw)
		if err != nil {
			return fmt.Errorf("event %s: line of an imported file: %w", e.ID(), err)
		}
		x.lines = append(x.lines, l)
		x.taken[l.ID] = true
	}
	x.imported, x.importer, x.paths = e.Seq+p.More, e.Source, append(x.paths, p.Paths...)
	return nil
}

// known maps the entries of an imported transcript to existing lines.
func (x *exporter) known(e schemas.Event, nodes []loop.Node) {
	if d, ok := e.Data.(*schemas.CommandAccepted); ok {
		x.chosen(d)
	}
	if e.Type() != schemas.EventTranscriptReplaced || len(x.paths) == 0 {
		return
	}
	for i, n := range nodes {
		if i < len(x.paths[0]) {
			x.ids[n.ID] = x.paths[0][i]
		}
	}
	x.paths = x.paths[1:]
}

// new writes the lines of an event.
func (x *exporter) new(e schemas.Event, nodes []loop.Node) error {
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		return x.settings(e, d)
	case *schemas.Label:
		if target := x.ids[d.TargetID]; target != "" {
			return x.onTheWay(e, "l", line{Type: sessionfile.TypeLabel, TargetID: target, Label: d.Label})
		}
	case *schemas.Name:
		return x.onTheWay(e, "n", line{Type: sessionfile.TypeName, Name: &d.Name})
	}
	if r := schemas.ReplacesArguments(e.Data); r != nil {
		data, err := schemas.Marshal(r)
		if err != nil {
			return fmt.Errorf("event %s: %w", e.ID(), err)
		}
		return x.onTheWay(e, "a", line{Type: sessionfile.TypeCustom, CustomType: argsType, Data: data})
	}
	for _, n := range nodes {
		if err := x.node(e, n); err != nil {
			return fmt.Errorf("event %s: %w", e.ID(), err)
		}
	}
	return nil
}

// settings writes changes of the model and the thinking level.
func (x *exporter) settings(e schemas.Event, d *schemas.AgentStart) error {
	if d.Config == nil {
		return nil
	}
	if m := d.Config.Model; m.Provider != x.model.Provider || m.ID != x.model.ID {
		x.model = m
		l := line{Type: sessionfile.TypeModel, Provider: m.Provider, ModelID: m.ID}
		if err := x.onTheWay(e, "s", l); err != nil {
			return err
		}
	}
	level := d.Config.ThinkingLevel
	if level == "" {
		level = schemas.ThinkingOff
	}
	if level == x.thinking {
		return nil
	}
	x.thinking = level
	return x.onTheWay(e, "t", line{Type: sessionfile.TypeThinkingLevel, ThinkingLevel: string(level)})
}

// onTheWay writes an entry that has no node in the tree. The next entry continues below it.
func (x *exporter) onTheWay(e schemas.Event, letter string, l line) error {
	if x.tree.Leaf != x.leaf {
		x.leaf, x.tail = x.tree.Leaf, x.ids[x.tree.Leaf]
	}
	id, err := x.write(e, fmt.Sprintf("%s%d", letter, e.Seq), x.tail, l)
	x.tail = id
	return err
}

// node writes an entry of the tree.
func (x *exporter) node(e schemas.Event, n loop.Node) error {
	l := line{Type: sessionfile.TypeMessage, Message: messageOfClient(n.Message)}
	switch d := e.Data.(type) {
	case *schemas.Custom:
		l = line{Type: sessionfile.TypeCustom, CustomType: ofClient(d.CustomType), Data: d.Data}
	case *schemas.AddMessage:
		l = line{Type: sessionfile.TypeCustomMessage, CustomType: ofClient(d.CustomType), Content: d.Content,
			Display: &d.Display}
		if len(d.Details) > 0 {
			l.Details = d.Details
		}
	case *schemas.Leaf:
		l = line{Type: sessionfile.TypeBranchSummary, Summary: &d.Summary.Summary, FromHook: d.Summary.FromHook}
		l.FromID = "root"
		if from := x.ids[n.Parent]; from != "" {
			l.FromID = from
		}
		if d.Summary.Details != nil {
			l.Details = d.Summary.Details
		}
	}
	if n.Type == schemas.EntryCompaction && !fromOutside(e) {
		var err error
		if l, err = x.compaction(e); err != nil {
			return err
		}
	}
	parent := x.ids[n.Parent]
	if n.Parent == x.leaf {
		parent = x.tail
	}
	id, err := x.write(e, n.ID, parent, l)
	x.ids[n.ID], x.leaf, x.tail = id, n.ID, id
	return err
}

// fromOutside reports whether an event contains a whole transcript. In such a transcript a compaction's summary is just
// the first message, and replaces no entry of the file.
func fromOutside(e schemas.Event) bool {
	return e.Type() == schemas.EventSessionBranched || e.Type() == schemas.EventTranscriptReplaced
}

// compaction returns the line of a compaction's event. It decodes the members that the event shares with such a line.
func (x *exporter) compaction(e schemas.Event) (line, error) {
	raw, err := schemas.Marshal(e.Data)
	if err != nil {
		return line{}, err
	}
	var d struct {
		Summary          *string         `json:"summary"`
		FirstKeptEntryID string          `json:"firstKeptEntryId"`
		TokensBefore     *int64          `json:"tokensBefore"`
		Details          json.RawMessage `json:"details"`
		FromHook         bool            `json:"fromHook"`
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return line{}, err
	}
	if d.Summary == nil || d.TokensBefore == nil {
		return line{}, fmt.Errorf("%s is no compaction", e.Type())
	}
	l := line{Type: sessionfile.TypeCompaction, Summary: d.Summary, FirstKeptEntryID: x.ids[d.FirstKeptEntryID],
		TokensBefore: d.TokensBefore, FromHook: d.FromHook}
	if len(d.Details) > 0 {
		l.Details = d.Details
	}
	return l, nil
}

// write appends a line. It changes the id if another line has it already.
func (x *exporter) write(e schemas.Event, id, parent string, l line) (string, error) {
	for x.taken[id] {
		id += "x"
	}
	x.taken[id] = true
	l.ID, l.Timestamp = id, sessionfile.Stamp(e.Time)
	if parent != "" {
		l.ParentID = &parent
	}
	entry, err := l.entry()
	if err != nil {
		return "", err
	}
	x.lines = append(x.lines, entry)
	return id, nil
}

// endAtLeaf makes the last line the leaf.
func (x *exporter) endAtLeaf() error {
	if len(x.lines) < 2 || x.lines[len(x.lines)-1].ID == x.tail {
		return nil
	}
	marker := line{Type: sessionfile.TypeCustom, CustomType: leafType}
	_, err := x.write(x.last, fmt.Sprintf("leaf%d", x.last.Seq), x.tail, marker)
	return err
}
