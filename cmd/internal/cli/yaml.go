package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// Bounds of the YAML file, in which a prompt may stand. The library takes a minute and gigabytes for 64 KiB of brackets,
// and whatever there is for aliases of aliases: what settings have no use for is refused before anything is parsed.
const (
	maxFile   = 1 << 20
	maxTokens = 20_000
	maxDepth  = 8
)

// readBounded returns the content of a file that is no larger than [maxFile], whatever the file is.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, err
}

// boundYAML refuses documents that could cost more than their size: anchors and aliases, keys that are no plain text,
// and lists in lists in lists.
func boundYAML(data []byte) error {
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
			return errors.New(at + "nested too deep: a setting is a value or a list of values")
		}
	}
	return nil
}
