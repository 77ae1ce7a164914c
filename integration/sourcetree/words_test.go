package sourcetree_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A word is a phrase that is not used here, because the field has a term for it: a reader who searches for the term
// then finds the place.
type word struct {
	not    *regexp.Regexp
	write  string
	passes string // an example that must pass; "" for none
	fails  string // an example that must not pass
}

func notWord(pattern, write, fails, passes string) word {
	pattern = strings.ReplaceAll(pattern, " ", `\s+`) // also across lines
	return word{regexp.MustCompile(`\b(?:` + pattern + `)\b`), write, passes, fails}
}

// words are checked in comments and documents. Names on the wire, in logs and in outputs are not checked.
var words = []word{
	notWord(`signs? of life`, "heartbeat", "a sign of life a second", "a heartbeat a second"),
	notWord(`messages? in hand|in hand`, "in flight", "what it has in hand", "at hand"),
	notWord(`hand(?:s|ed|ing)? over`, "dispatch a call, move a partition, pass an argument",
		"the call is handed over", "measures a handover"),
	notWord(`g(?:ave|iven|ives|iving) back`, "nak a message, release a place, return a value",
		"the message is given back", "goes back"),
	notWord(`t(?:ook|aken|akes|aking) back`, "withdraw", "a call is taken back", "takes it"),
	notWord(`unheard|was heard|been heard|are heard|heard of|hears? of`, "received, answered, undelivered",
		"services that were unheard", "overheard"),
	notWord(`(?:is|are|was|were|goes|puts?) in doubt|a doubt|doubts`, "unverified", "the consumer is in doubt",
		"no doubt"),
	notWord(`doubted`, "unverified", "a session that is doubted", "undoubtedly"),
	notWord(`(?:a|the|each|its|another) flight|flights|flown`, "delivery in flight, message in flight",
		"the flight ends", "messages in flight"),
	notWord(`leans? on|leaned on|leaning on`, "depends on", "a command that leans on another", "a lean loop"),
	notWord(`complaints`, "logged failures, rate-limited log", "complaints are bounded", "complaint"),
	notWord(`held against|holds? (?:it |them )?against`, "checked against, validated by",
		"arguments are held against the schema", "held in memory"),
	notWord(`(?:is|be|are) gone on with`, "continued", "a session is gone on with", "the run goes on"),
	notWord(`logger is told`, "Logger logs", "logger is told of it", "logger logs it"),
	notWord(`such a one`, "the noun", "no such a one is there", "such a message"),
	notWord(`again and again`, "what repeats it: redelivered, retried", "delivered again and again", "again"),
	notWord(`what is asked (?:of|about|for)`, "query, request", "what is asked of it", "what is asked"),
	notWord(`seats?`, "entry", "a seat in the list", "seated"),
	notWord(`lanes?|tickets?`, "queue of a session, position in it", "each session has a lane", "planes"),
	notWord(`errands?|crews?`, "work, members", "its crew", "crewed"),
}

// A rule's number tells a stranger nothing, and a document that is not here cannot be read.
var numbers = regexp.MustCompile(`\b(?:[Bb]ehaviour,?\s[A-F][0-9]|(?:[Ff]inding|[Ii]ssue|[Tt]ask)\s#?[0-9]+\b)` +
	`|\b[A-F][0-9]{1,2}\.[0-9]+\b|\b(?:core|nats|ui)\.md\b|\b(?:HOUSE|DESIGN|STYLE)(?:\.md| section)`)

func TestWordsOfTheField(t *testing.T) {
	t.Parallel()
	patterns := make([]string, 0, len(words))
	for _, w := range words {
		patterns = append(patterns, w.not.String())
	}
	all := regexp.MustCompile(strings.Join(patterns, "|")) // one pass for all words
	for name, text := range writings(t) {
		lower := strings.ToLower(text)
		for _, at := range all.FindAllStringIndex(lower, -1) {
			found := lower[at[0]:at[1]]
			for _, w := range words {
				if w.not.MatchString(found) {
					t.Errorf("%s:%d: %q: write %s", name, lineOf(lower, at[0]), found, w.write)
				}
			}
		}
		for _, at := range numbers.FindAllStringIndex(text, -1) {
			t.Errorf("%s:%d: %q: give the reason in place of the number", name, lineOf(text, at[0]), text[at[0]:at[1]])
		}
	}
}

func lineOf(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// Each word of the list matches its failing example and not its passing one.
func TestTheListOfWords(t *testing.T) {
	t.Parallel()
	for _, w := range words {
		if !w.not.MatchString(w.fails) {
			t.Errorf("%s lets %q pass", w.not, w.fails)
		}
		if w.not.MatchString(w.passes) {
			t.Errorf("%s stops %q", w.not, w.passes)
		}
	}
	for text, want := range map[string]bool{"(behaviour A1.5)": true, "finding 709": true, "as B13.2 says": true,
		"see core.md": true, "DESIGN section 2": true, "policy: rule 7": false, "UTF-8": false,
		"message b1.3": false, "RFC 3339": false,
		"findings of a scan": false, "docs/behaviour.md": false, "E2E": false, "F7 is JPEG-LS": false} {
		if numbers.MatchString(text) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}

// writings returns the comments of all Go files and the documents, with their original line numbers. It skips decisions
// and the changelog, which describe past versions.
func writings(t *testing.T) map[string]string {
	t.Helper()
	all := documents(t)
	for name := range all {
		if strings.HasPrefix(name, "docs/decisions/") || name == "CHANGELOG.md" {
			delete(all, name)
		}
	}
	for _, name := range goFiles(t) {
		source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if name != "integration/sourcetree/words_test.go" {
			all[name] = comments(source)
		}
	}
	return all
}

// comments returns the comments of a Go file, at their original lines.
func comments(source []byte) string {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	var text strings.Builder
	line := 1
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return text.String()
		}
		if tok != token.COMMENT {
			continue
		}
		for at := file.Line(pos); line < at; line++ {
			text.WriteByte('\n')
		}
		text.WriteString(strings.TrimPrefix(lit, "//"))
		line += strings.Count(lit, "\n")
	}
}

// goFiles returns the Go files of the repository, by path from its root.
func goFiles(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if filepath.Ext(name) == ".go" {
			all = append(all, strings.TrimPrefix(filepath.ToSlash(name), root+"/"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
