// Package page writes a session for people: as one HTML page, or as Markdown.
//
// Nothing that models, tools or people wrote is taken for markup. The page has no script, and its content security
// policy forbids all; it loads nothing from anywhere. In Markdown such text stands in fences that are longer than any
// in it.
package page
