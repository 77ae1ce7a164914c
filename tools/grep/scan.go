package grep

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/room"
)

const (
	// sniffBytes is how many bytes of a file are checked for a null byte before the search.
	sniffBytes = 64 << 10
	// maxLine is the number of bytes of a line that are searched.
	maxLine = 16 << 20
	// smallLine is the number of bytes of a line that is kept without waiting for room.
	smallLine = 1 << 20
)

// A scanner searches files, one after the other. Create one with [newScanner].
type scanner struct {
	pattern *matcher
	found   *findings
	in      *bufio.Reader // reused for each file
	room    room.Room
}

func newScanner(pattern *matcher, found *findings) scanner {
	return scanner{pattern, found, bufio.NewReaderSize(nil, sniffBytes), room.Lines}
}

// open opens and searches a file, which is shown as name. The error says why it cannot be opened.
func (s scanner) open(ctx context.Context, files fs.FS, path, name string) (opened bool, err error) {
	file, err := files.Open(path)
	if err != nil {
		return false, err
	}
	return true, s.file(ctx, file, name)
}

// file searches a file and closes it. It skips a file that cannot be read or contains a null byte.
func (s scanner) file(ctx context.Context, file fs.File, name string) error {
	defer func() { _ = file.Close() }() // nothing was written
	s.in.Reset(file)
	in := decoded(s.in)
	if head, err := in.Peek(sniffBytes); err != nil && !errors.Is(err, io.EOF) || bytes.IndexByte(head, 0) >= 0 {
		return nil
	}
	s.found.begin(name)
	return s.lines(ctx, in)
}

// decoded removes a byte order mark, and decodes UTF-16 if the mark says so.
func decoded(in *bufio.Reader) *bufio.Reader {
	head, _ := in.Peek(3) // an error is returned again by the next read
	switch {
	case bytes.HasPrefix(head, []byte("\xEF\xBB\xBF")):
		_, _ = in.Discard(3)
	case bytes.HasPrefix(head, []byte("\xFF\xFE")), bytes.HasPrefix(head, []byte("\xFE\xFF")):
		utf16 := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder()
		return bufio.NewReaderSize(transform.NewReader(in, utf16), sniffBytes)
	}
	return in
}

// lines searches up to the end of the file, to a null byte, or until a limit is reached.
func (s scanner) lines(ctx context.Context, in *bufio.Reader) error {
	defer s.found.end()
	var long []byte
	for {
		if err := tools.Interrupted(ctx); err != nil { // also within a line, which may be endless
			return err
		}
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) || len(long) > 0 {
			if len(long) > smallLine && cap(long) < maxLine {
				leave, err := s.room.Take(ctx, maxLine)
				if err != nil {
					return tools.Interrupted(ctx)
				}
				defer leave() // once, as it is for the longest line
				long = append(make([]byte, 0, maxLine), long...)
			}
			long = append(long, line[:min(len(line), maxLine-len(long))]...)
			if errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
			line, long = long, long[:0]
		}
		if err != nil && len(line) == 0 || bytes.IndexByte(line, 0) >= 0 {
			return nil
		}
		line = bytes.TrimSuffix(line, []byte{'\n'})
		if more := s.found.line(ctx, line, s.pattern); !more || err != nil {
			return nil
		}
	}
}
