package chat

import (
	"bufio"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// console reads typed lines while output is printed.
type console interface {
	io.Writer
	// ReadLine returns the next line, and io.EOF at the end of the input.
	ReadLine() (string, error)
	// Close restores the terminal.
	Close()
}

// openConsole sets up a terminal with line editing and history, or reads plain lines if there is none. It calls
// interrupt when the user types ctrl-c; without a terminal, ctrl-c is a signal to the process.
func openConsole(io_ *cli.IO, interrupt func()) (console, error) {
	in, ok := io_.Stdin.(*os.File)
	if !ok || !cli.IsTerminal(in) || !cli.IsTerminal(io_.Stdout) {
		return &lines{in: bufio.NewReaderSize(io_.Stdin, 64<<10), out: io_.Stdout}, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return nil, err
	}
	keys := &keyboard{in: in, interrupt: interrupt}
	t := &screen{in: in, before: before, Terminal: term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, io_.Stdout}, "> ")}
	t.fit()
	return t, nil
}

// keyboard filters ctrl-c out of the input, which the line editor would treat as the end of the input.
type keyboard struct {
	in        io.Reader
	interrupt func()
}

const ctrlC = 3

func (k *keyboard) Read(p []byte) (int, error) {
	for {
		n, err := k.in.Read(p)
		kept := p[:0]
		for _, b := range p[:n] {
			if b == ctrlC {
				k.interrupt()
			} else {
				kept = append(kept, b)
			}
		}
		if len(kept) > 0 || err != nil {
			return len(kept), err
		}
	}
}

// screen is a terminal with a line editor at the bottom. The editor owns the last line, so output is written in whole
// lines: streamed text is wrapped.
type screen struct {
	*term.Terminal
	in     *os.File
	before *term.State

	mu      sync.Mutex
	width   int
	pending string
}

const defaultWidth = 80

func (s *screen) fit() {
	s.width = defaultWidth
	if width, height, err := term.GetSize(int(s.in.Fd())); err == nil && width > 20 {
		s.width = width
		_ = s.SetSize(width, height)
	}
}

// Write prints whole lines. Of an incomplete line it prints what exceeds the width, broken at a space if there is
// one.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := s.pending + string(p)
	whole := strings.LastIndexByte(text, '\n') + 1
	if whole > 0 {
		if _, err := s.Terminal.Write([]byte(text[:whole])); err != nil {
			return 0, err
		}
	}
	s.pending = text[whole:]
	for at := s.breakAt(); at > 0; at = s.breakAt() {
		if _, err := s.Terminal.Write([]byte(s.pending[:at] + "\n")); err != nil {
			return 0, err
		}
		s.pending = s.pending[at:]
	}
	return len(p), nil
}

// breakAt returns where the pending text must be broken, 0 if it fits.
func (s *screen) breakAt() int {
	runes, space := 0, 0
	for i, r := range s.pending {
		if runes++; runes == s.width {
			if space > 0 {
				return space
			}
			return i
		}
		if r == ' ' && i > 0 {
			space = i + 1
		}
	}
	return 0
}

// Close restores the state of the terminal.
func (s *screen) Close() { _ = term.Restore(int(s.in.Fd()), s.before) }

// lines is a console without a terminal.
type lines struct {
	in  *bufio.Reader
	out io.Writer
}

func (l *lines) Write(p []byte) (int, error) { return l.out.Write(p) }
func (l *lines) Close()                      {}

// maxLine limits a typed line; a command takes no more.
const maxLine = 512 << 10

func (l *lines) ReadLine() (string, error) {
	var b strings.Builder
	for {
		part, more, err := l.in.ReadLine()
		if err != nil {
			return b.String(), err
		}
		if b.Len() < maxLine {
			b.Write(part)
		}
		if !more {
			return b.String(), nil
		}
	}
}
