package main

import (
	"io"
	"os"
)

// style colours text; false leaves it as it is. Text is made [visible] first.
type style bool

func (s style) paint(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) dim(text string) string  { return s.paint("2", text) }
func (s style) bold(text string) string { return s.paint("1", text) }
func (s style) call(text string) string { return s.paint("36", text) }

// problem is red where there is one.
func (s style) problem(is bool, text string) string {
	if !is {
		return text
	}
	return s.paint("31", text)
}

// isTerminal reports whether w is a character device. That takes the null device for a terminal, which does no harm.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func wantsColour(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
