package main

// style colours text; false leaves it as it is. Text is made [cli.Visible] first.
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
