package pifile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/sessionfile"
)

// Limits of an import: of the lines in one event, and of the reported problems.
const (
	partBytes   = 512 << 10
	maxProblems = 20
)

// A filePart is the data of an event with lines of an imported file: the lines, how many events of the import follow,
// and for each transcript_replaced among them the ids of its messages' lines.
type filePart struct {
	First bool              `json:"first,omitempty"`
	Lines []json.RawMessage `json:"lines"`
	More  uint64            `json:"more"`
	Paths [][]string        `json:"paths,omitempty"`
}

// An Imported is an imported session: its id, the number of its entries, and the events of its log.
type Imported struct {
	Session string
	Entries int
	Events  []schemas.EventData
}

// maxFile is the largest size of a file.
const maxFile = 1 << 30

// The branches of a file other than the leaf's are each written as a whole, including their common entries. Together
// they may have branchBytes bytes plus branchTimes times the size of the file.
const (
	branchBytes = 64 << 20
	branchTimes = 16
)

// ReadFile reads a session file as [Import] does. The error names the file.
func ReadFile(path string) (*Imported, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("import %s: %d bytes, more than %d", path, info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	im, err := Import(text)
	if err != nil {
		return nil, fmt.Errorf("import %s: nothing was written:\n%w", path, err)
	}
	return im, nil
}

// Import reads a session file of versions 1 to 3. The error lists the invalid lines, at most twenty, with the reasons;
// no part of the file is imported then.
func Import(text []byte) (*Imported, error) {
	lines, problems := sessionfile.Check(text)
	if len(problems) > 0 {
		return nil, refusal(problems)
	}
	s := sessionfile.FromEntries(lines)
	im := &importer{s: s, nodes: map[string]string{}, messages: map[string]schemas.Message{}}
	if problems := im.read(); len(problems) > 0 {
		return nil, refusal(problems)
	}
	if err := im.plan(lines); err != nil {
		return nil, err
	}
	return &Imported{Session: sessionID(s.Header().ID), Entries: len(lines) - 1, Events: im.events}, nil
}

func refusal(problems []sessionfile.Problem) error {
	var errs []error
	for i, p := range problems {
		if i == maxProblems {
			errs = append(errs, fmt.Errorf("and %d more lines", len(problems)-i))
			break
		}
		errs = append(errs, p)
	}
	return errors.Join(errs...)
}

var noToken = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// sessionID returns a legal session id that is as similar to the file's id as possible.
func sessionID(id string) string {
	id = strings.Trim(noToken.ReplaceAllString(id, "-"), "-")
	return id[:min(len(id), 64)]
}

type importer struct {
	s        *sessionfile.Session
	messages map[string]schemas.Message // of the entries, by their ids
	nodes    map[string]string          // ids in the session's tree, by ids of entries
	paths    [][]string
	replaced []*schemas.TranscriptReplaced
	events   []schemas.EventData
}

// read decodes the messages and reports invalid ones.
func (im *importer) read() (problems []sessionfile.Problem) {
	for _, e := range im.s.Entries() {
		raw := e.Shown()
		if raw == nil {
			if e.Type == sessionfile.TypeMessage {
				problems = append(problems, sessionfile.Problem{Line: e.Line, Reason: "a message entry has a message"})
			}
			continue
		}
		m, err := schemas.DecodeMessage(raw)
		if err == nil {
			err = valid(&schemas.TranscriptReplaced{Messages: schemas.Messages{m}})
		}
		if err != nil {
			problems = append(problems, sessionfile.Problem{Line: e.Line, Reason: err.Error()})
			continue
		}
		im.messages[e.ID] = m
	}
	return problems
}

func valid(d schemas.EventData) error {
	raw, err := schemas.Marshal(d)
	if err != nil {
		return err
	}
	return schemas.ValidateEvent(d.EventType(), raw)
}

// plan creates the events.
func (im *importer) plan(lines []*sessionfile.Entry) error {
	parts, sizes, err := split(lines)
	if err == nil {
		err = im.transcripts(sizes)
	}
	if err != nil {
		return err
	}
	first := len(parts) + 1 // sequence of the first transcript
	for i := range im.replaced {
		for n, id := range im.paths[i] {
			im.nodes[id] = fmt.Sprintf("x%d.%d", first+i, n)
		}
	}
	last, err := im.settings()
	if err != nil {
		return err
	}
	for _, l := range im.s.Labels() {
		if node := im.nodes[l.Target]; node != "" {
			last = append(last, &schemas.Label{TargetID: node, Label: l.Label})
		}
	}
	if name := im.s.Name(); name != "" {
		last = append(last, &schemas.Name{Name: name})
	}
	total := len(parts) + len(im.replaced) + len(last)
	for i := range parts {
		parts[i].More = uint64(total - i - 1)
		if i == len(parts)-1 {
			parts[i].Paths = im.paths
		}
		data, err := schemas.Marshal(parts[i])
		if err != nil {
			return err
		}
		im.events = append(im.events, &schemas.Custom{CustomType: fileType, Data: data})
	}
	for _, d := range append(im.events, last...) {
		if err := valid(d); err != nil {
			return fmt.Errorf("%s: %w", d.EventType(), err)
		}
	}
	for _, d := range im.replaced { // not checked again: read has validated their messages
		im.events = append(im.events, d)
	}
	im.events = append(im.events, last...)
	return nil
}

// transcripts adds the contexts of all leaves that have entries of their own, that of the session's leaf last. sizes
// are the sizes of the entries.
func (im *importer) transcripts(sizes map[string]int) error {
	allowed := branchBytes
	for _, size := range sizes {
		allowed += branchTimes * size
	}
	leaf := im.s.Leaf()
	covered := map[string]bool{}
	main := im.s.Context(leaf)
	for _, id := range main.IDs {
		covered[id] = true
	}
	inner := map[string]bool{}
	for _, e := range im.s.Entries() {
		if p := im.s.Parent(e); p != nil {
			inner[p.ID] = true
		}
	}
	var leaves []*sessionfile.Entry
	for _, e := range im.s.Entries() {
		if inner[e.ID] || e.ID == leaf {
			continue
		}
		leaves = append(leaves, e)
		for _, on := range im.s.Path(e.ID) {
			allowed -= sizes[on.ID]
		}
		if allowed < 0 {
			return fmt.Errorf("its branches come to more than %d MiB and %d times the file: each is written whole, with what "+
				"they have in common", branchBytes>>20, branchTimes)
		}
	}
	for _, e := range leaves {
		c, own := im.s.Context(e.ID), false
		for _, id := range c.IDs {
			own = own || !covered[id]
			covered[id] = true
		}
		if own {
			im.transcript(c)
		}
	}
	if len(main.IDs) > 0 {
		im.transcript(main)
	}
	return nil
}

func (im *importer) transcript(c sessionfile.Context) {
	d := &schemas.TranscriptReplaced{Messages: schemas.Messages{}}
	for _, id := range c.IDs {
		d.Messages = append(d.Messages, im.messages[id])
	}
	im.paths, im.replaced = append(im.paths, c.IDs), append(im.replaced, d)
}

// split divides lines into parts that fit into an event. It also returns the size of each entry's line.
func split(lines []*sessionfile.Entry) (parts []filePart, sizes map[string]int, err error) {
	size, sizes := partBytes, make(map[string]int, len(lines))
	for _, l := range lines {
		raw, err := l.MarshalJSON()
		if err != nil {
			return nil, nil, err
		}
		sizes[l.ID] = len(raw)
		if size+len(raw) > partBytes {
			parts, size = append(parts, filePart{First: len(parts) == 0}), 0
		}
		parts[len(parts)-1].Lines = append(parts[len(parts)-1].Lines, raw)
		size += len(raw)
	}
	return parts, sizes, nil
}
