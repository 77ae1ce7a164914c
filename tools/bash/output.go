package bash

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/internal/utf8text"
)

const noOutput = "(no output)"

// output collects the output of a command: the end of it, decoded, and all of it in a file once it is too long to be
// shown. It is safe for concurrent use.
type output struct {
	mu      sync.Mutex
	decoder utf8text.Decoder
	tail    *truncate.Tail
	decoded []byte
	raw     []byte // everything so far, until there is a spill
	spill   *spill
}

func newOutput(a *attic) *output {
	return &output{tail: truncate.NewTail(truncate.MaxLines, truncate.MaxBytes), spill: &spill{attic: a}}
}

// Write never fails, because a full disk must not stop a command.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decoded = o.decoder.Append(o.decoded[:0], p)
	o.tail.Write(o.decoded)
	o.raw = append(o.raw, p...)
	o.keep()
	return len(p), nil
}

// keep writes new output to the spill, once the output is so long that there has to be one.
func (o *output) keep() {
	if o.tail.Exceeded() {
		o.spill.write(o.raw)
		o.raw = o.raw[:0]
	}
}

// finish ends the stream: an incomplete character becomes U+FFFD.
func (o *output) finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tail.Write(o.decoder.Flush(nil))
	o.keep()
	o.spill.close()
}

// close closes the spill's file.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.spill.close()
}

func (o *output) snapshot() snapshot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return snapshot{
		cut: o.tail.Result(), path: o.spill.path, kept: o.spill.size, full: o.spill.full, lost: o.spill.err,
	}
}

// A snapshot is the state of the output at one moment.
type snapshot struct {
	cut  truncate.Result
	path string // of the spill
	kept int64  // bytes in the spill
	full bool   // the spill has only the beginning, because there is no room for more
	lost error  // why the spill is incomplete
}

type details struct {
	Truncation     *truncate.Result `json:"truncation,omitempty"`
	FullOutputPath string           `json:"fullOutputPath,omitempty"`
}

func (s snapshot) details() (json.RawMessage, error) {
	var d details
	if s.cut.Truncated {
		d = details{&s.cut, s.path}
	}
	return schemas.Marshal(d)
}

// text returns the output, or a placeholder if it is empty, and a notice if a part of it is not shown.
func (s snapshot) text(none string) string {
	text := s.cut.Content
	if text == "" {
		text = none
	}
	return text + s.notice()
}

func (s snapshot) notice() string {
	if !s.cut.Truncated {
		return ""
	}
	limit := ""
	if s.cut.TruncatedBy == truncate.ByBytes {
		limit = fmt.Sprintf(" (%s limit)", truncate.Size(truncate.MaxBytes))
	}
	first := s.cut.TotalLines - s.cut.OutputLines + 1
	shown := fmt.Sprintf("Showing lines %d-%d of %d%s", first, s.cut.TotalLines, s.cut.TotalLines, limit)
	if s.cut.LastLinePartial {
		shown = fmt.Sprintf("Showing last %s of line %d (line is %s)",
			truncate.Size(s.cut.OutputBytes), first, truncate.Size(s.cut.LineBytes))
	}
	if s.lost != nil {
		return fmt.Sprintf("\n\n[%s. The full output could not be kept: %v]", shown, s.lost)
	}
	if s.full {
		return fmt.Sprintf("\n\n[%s. First %s of the output: %s]", shown, truncate.Size(s.kept), s.path)
	}
	return fmt.Sprintf("\n\n[%s. Full output: %s]", shown, s.path)
}

// failed returns the error of a command that has failed: its output and the status.
func (s snapshot) failed(status, none string) error {
	if text := s.text(none); text != "" {
		status = text + "\n\n" + status
	}
	return errors.New(status)
}
