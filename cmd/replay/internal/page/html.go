package page

import (
	_ "embed" // the page's template
	"html/template"
	"io"

	"github.com/loopbus/loopbus/sessionfile"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// HTML writes the session as one self-contained page.
func HTML(w io.Writer, s *sessionfile.Session) error { return pageTemplate.Execute(w, viewOf(s)) }
