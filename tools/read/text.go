package read

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/internal/utf8text"
)

type details struct {
	Truncation truncate.Result `json:"truncation"`
}

// text returns the requested lines. It reads the file once to its end, because the hints contain the number of lines,
// but keeps only the part that may be shown.
func (r reader) text(ctx context.Context, file *os.File, args arguments) (schemas.ToolResult, error) {
	want := args.selection()
	lines := lineReader{want: want, head: truncate.NewHead(truncate.MaxLines, truncate.MaxBytes)}
	if err := lines.readAll(ctx, file); err != nil {
		return schemas.ToolResult{}, err
	}
	total := lines.index + 1
	if want.start >= total {
		return schemas.ToolResult{}, tools.Failf("Offset %s is beyond end of file (%d lines total)",
			tools.Seconds(args.Offset), total)
	}
	cut := lines.head.Result()
	result := schemas.TextResult(cut.Content + hint(cut, want, total, lines.finalLF, args.Path))
	if !cut.Truncated {
		return result, nil
	}
	raw, err := schemas.Marshal(details{cut})
	result.Details = json.RawMessage(raw)
	return result, err
}

// hint returns the notice of how to continue reading, "" at the end of the file. The empty text after a final line
// break does not count.
func hint(cut truncate.Result, want selection, total int64, finalLF bool, path string) string {
	first := want.start + 1
	last := want.start + cut.OutputLines
	limit := truncate.Size(truncate.MaxBytes)
	switch {
	case cut.FirstLineExceedsLimit:
		return fmt.Sprintf("[Line %d is %s, exceeds %s limit. Use bash: sed -n '%dp' %s | head -c %d]",
			first, truncate.Size(cut.LineBytes), limit, first, path, truncate.MaxBytes)
	case cut.TruncatedBy == truncate.ByLines:
		return fmt.Sprintf("\n\n[Showing lines %d-%d of %d. Use offset=%d to continue.]", first, last, total, last+1)
	case cut.TruncatedBy == truncate.ByBytes:
		return fmt.Sprintf("\n\n[Showing lines %d-%d of %d (%s limit). Use offset=%d to continue.]",
			first, last, total, limit, last+1)
	case finalLF && want.end == total-1:
		return ""
	case want.end < total:
		return fmt.Sprintf("\n\n[%d more lines in file. Use offset=%d to continue.]", total-want.end, want.end+1)
	}
	return ""
}

// A lineReader counts the lines of a stream and keeps the start of the requested ones, decoded.
type lineReader struct {
	want    selection
	head    *truncate.Head
	decoder utf8text.Decoder
	index   int64 // of the line being read
	finalLF bool  // the last byte so far is LF
	decoded []byte
}

func (l *lineReader) readAll(ctx context.Context, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		if err := tools.Interrupted(ctx); err != nil {
			return err
		}
		n, err := from.Read(buf)
		l.feed(buf[:n])
		if errors.Is(err, io.EOF) {
			l.keep(nil, true)
			return nil
		}
		if err != nil {
			return nodeerr.New(err, "read", "")
		}
	}
}

func (l *lineReader) feed(p []byte) {
	if len(p) > 0 {
		l.finalLF = p[len(p)-1] == '\n'
	}
	for len(p) > 0 {
		if l.index >= l.want.end {
			l.index += int64(bytes.Count(p, []byte{'\n'}))
			return
		}
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			l.keep(p, false)
			return
		}
		// The line break belongs to the text only if the next line does.
		if l.index+1 < l.want.end {
			l.keep(p[:i+1], false)
		} else {
			l.keep(p[:i], true)
		}
		l.index++
		p = p[i+1:]
	}
}

func (l *lineReader) keep(p []byte, last bool) {
	if l.index < l.want.start || l.index >= l.want.end {
		return
	}
	l.decoded = l.decoder.Append(l.decoded[:0], p)
	if last {
		l.decoded = l.decoder.Flush(l.decoded)
	}
	l.head.Write(l.decoded)
}
