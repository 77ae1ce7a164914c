// Package flatyaml reads YAML from untrusted sources: settings, and the front matter of files in a workspace. The
// YAML library needs a minute and gigabytes for 64 KiB of brackets, and without limit for nested aliases. So this
// package refuses documents that could cost more than their size before parsing them.
package flatyaml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

const (
	maxTokens = 20_000
	maxDepth  = 8
)

// Unmarshal decodes a document like the library. It returns an error for a document with anchors, aliases or merge
// keys, with keys that are not plain text, with lists nested three deep, or with more than 20,000 names, values and
// signs. Errors quote no lines of the document, which may contain keys. The caller must limit the length of the
// document.
func Unmarshal(data []byte, into any) error {
	if err := check(data); err != nil {
		return err
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return errors.New(text)
	}
	return nil
}

func check(data []byte) error {
	open, entries := 0, 0 // brackets, and dashes in a row
	for i, t := range lexer.Tokenize(string(data)) {
		at := fmt.Sprintf("[%d:%d] ", t.Position.Line, t.Position.Column)
		if i >= maxTokens {
			return errors.New(at + "there are more than 20000 names, values and signs")
		}
		if t.Type != token.SequenceEntryType {
			entries = 0
		}
		switch t.Type {
		case token.AnchorType, token.AliasType, token.MergeKeyType:
			return errors.New(at + "anchors and aliases are not taken: write the value out")
		case token.MappingKeyType:
			return errors.New(at + "keys that begin with ? are not taken")
		case token.SequenceStartType, token.MappingStartType:
			open++
		case token.SequenceEndType, token.MappingEndType:
			open--
		case token.SequenceEntryType:
			entries++
		}
		if open > maxDepth || entries > maxDepth {
			return errors.New(at + "nested too deep: what is taken are values and lists of values")
		}
	}
	return nil
}
