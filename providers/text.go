package providers

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf16"

	"github.com/loopbus/loopbus/providers/internal/partialjson"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
)

// CleanText returns a text in the form in which it may be sent: it removes unpaired UTF-16 surrogates, and replaces
// other invalid UTF-8 by U+FFFD. [Transform] does this for the texts of messages.
func CleanText(s string) string { return wtf8.Clean(s) }

// PartialArguments completes the partially streamed JSON arguments of a tool call to valid JSON, which grows with
// every delta. If that is not possible, it returns {}. Its cost is proportional to the length of the text, so call it
// only to show a call in progress, not for every delta.
func PartialArguments(text string) json.RawMessage {
	arguments, _ := partialjson.Parse(text)
	return arguments
}

// ObjectOf returns the arguments of a tool call as a JSON object, for vendors that refuse transcripts with any other
// value. Arguments that are missing or null become {}, and any other value the member "value": a model can stream
// what no tool accepts, and has to be shown what it was.
func ObjectOf(arguments json.RawMessage) json.RawMessage {
	switch text := bytes.TrimSpace(arguments); {
	case len(text) == 0 || string(text) == "null":
		return json.RawMessage("{}")
	case text[0] != '{':
		return slices.Concat(json.RawMessage(`{"value":`), text, json.RawMessage("}"))
	}
	return arguments
}

// CleanID returns a tool call's id with every UTF-16 unit outside [A-Za-z0-9_-] replaced by an underscore, cut after
// max.
func CleanID(id string, max int) string {
	out := make([]byte, 0, len(id))
	for _, unit := range utf16.Encode([]rune(id)) {
		if len(out) == max {
			break
		}
		c := byte('_')
		if unit < 0x80 && isIDByte(byte(unit)) {
			c = byte(unit)
		}
		out = append(out, c)
	}
	return string(out)
}

func isIDByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// ShortHash returns 64 bits of hash in base 36. It shortens ids that a vendor would refuse because of their length;
// it is not cryptographic.
func ShortHash(s string) string {
	h1, h2 := uint32(0xdeadbeef), uint32(0x41c6ce57)
	for _, unit := range utf16.Encode([]rune(s)) {
		h1 = (h1 ^ uint32(unit)) * 2654435761
		h2 = (h2 ^ uint32(unit)) * 1597334677
	}
	h1 = (h1^h1>>16)*2246822507 ^ (h2^h2>>13)*3266489909
	h2 = (h2^h2>>16)*2246822507 ^ (h1^h1>>13)*3266489909
	return strconv.FormatUint(uint64(h2), 36) + strconv.FormatUint(uint64(h1), 36)
}
