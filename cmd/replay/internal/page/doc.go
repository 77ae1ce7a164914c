// Package page writes a session for people: as one HTML page, or as Markdown.
//
// Text of models, tools and people is never interpreted as markup. The page contains no script, its content security
// policy forbids all scripts, and it loads nothing. In Markdown such text is in fences that are longer than any fence
// in the text.
package page
