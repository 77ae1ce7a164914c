package rehearsal

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// Limits for the part of a tool result that the reply quotes.
const (
	maxPreviewLines = 3
	maxPreviewRunes = 120
)

// introduce returns a text that explains the rehearsal model and lists the lines for the tools that are offered.
func introduce(offered map[string]bool) string {
	var b strings.Builder
	b.WriteString("This is rehearsal, a model that needs no key and follows rules instead of thinking. ")
	shapes := shapesOf(offered)
	if len(shapes) == 0 {
		b.WriteString("It would call tools, but this session offers none that it knows.")
		return b.String()
	}
	b.WriteString("It understands lines of these forms, each of which becomes a tool call:\n")
	for _, shape := range shapes {
		b.WriteString("\n  " + shape)
	}
	return b.String()
}

// maxOtherShapes is how many tools without their own rule the text lists.
const maxOtherShapes = 8

// shapesOf returns the forms of the lines that call the tools that are offered.
func shapesOf(offered map[string]bool) []string {
	others := maps.Clone(offered)
	var shapes []string
	for _, r := range rules {
		if offered[r.tool] {
			shapes = append(shapes, r.shape)
		}
		delete(others, r.tool)
	}
	names := slices.Sorted(maps.Keys(others))
	for _, name := range names[:min(len(names), maxOtherShapes)] {
		shapes = append(shapes, callRule(name).shape)
	}
	if more := len(names) - maxOtherShapes; more > 0 {
		shapes = append(shapes, fmt.Sprintf("%s TOOL {JSON}, for %d more tools", callWord, more))
	}
	return shapes
}

// announce returns a text that lists the calls, and the tools that are missing.
func announce(calls []schemas.ToolCall, missing []rule, offered map[string]bool) string {
	var sentences []string
	if len(calls) > 0 {
		names := make([]string, 0, len(calls))
		for _, call := range calls {
			names = append(names, call.Name)
		}
		sentences = append(sentences, "Calling "+strings.Join(names, ", ")+".")
	}
	var said []string
	for _, r := range missing {
		if !slices.Contains(said, r.tool) {
			said = append(said, r.tool)
			sentences = append(sentences, fmt.Sprintf("A line of the form %q would call the tool %s, which this session "+
				"does not offer.", r.shape, r.tool))
		}
	}
	if len(calls) == 0 {
		if shapes := shapesOf(offered); len(shapes) > 0 {
			sentences = append(sentences, "These forms work here: "+strings.Join(shapes, "; ")+".")
		}
	}
	return strings.Join(sentences, " ")
}

// report returns a text that summarizes the tool results.
func report(results []*schemas.ToolResultMessage) string {
	parts := make([]string, 0, len(results))
	for _, result := range results {
		parts = append(parts, describe(result))
	}
	return strings.Join(parts, "\n\n")
}

func describe(result *schemas.ToolResultMessage) string {
	outcome := "ok"
	if result.IsError {
		outcome = "failed"
	}
	text := result.Content.JoinText()
	images := 0
	for _, block := range result.Content {
		if block.ContentType() == schemas.ContentImage {
			images++
		}
	}
	b := fmt.Sprintf("%s: %s, %s, %s", result.ToolName, outcome, count(lines(text), "line"), count(len(text), "byte"))
	if images > 0 {
		b += ", " + count(images, "image")
	}
	if preview := head(text); preview != "" {
		return b + ".\n" + preview
	}
	return b + "."
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// lines returns the number of lines. The last line need not end with a line break.
func lines(text string) int {
	n := strings.Count(text, "\n")
	if text != "" && !strings.HasSuffix(text, "\n") {
		n++
	}
	return n
}

// head returns the first lines that are not blank, cut to the limits.
func head(text string) string {
	var b strings.Builder
	shown := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if line == "" {
			continue
		}
		if shown++; shown > maxPreviewLines {
			b.WriteString("\n  ...")
			break
		}
		if shown > 1 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + shorten(line))
	}
	return b.String()
}

func shorten(line string) string {
	if utf8.RuneCountInString(line) <= maxPreviewRunes {
		return line
	}
	return string([]rune(line)[:maxPreviewRunes]) + "..."
}
