package providers

import (
	"encoding/json"
	"strconv"
	"unicode/utf16"

	"github.com/loopbus/loopbus/providers/internal/partialjson"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
)

// CleanText returns a text as it may be sent: unpaired UTF-16 surrogates are removed, and whatever else is not UTF-8
// becomes U+FFFD. [Transform] does this for the texts of messages.
func CleanText(s string) string { return wtf8.Clean(s) }

// PartialArguments returns what the arguments of a tool call come to when only a part of their JSON has been streamed:
// valid JSON, of which each further delta makes more. What makes no sense is {}. It costs as much as the text is long,
// so call it when a call is to be shown while it comes in, not for every delta.
func PartialArguments(text string) json.RawMessage { return partialjson.Parse(text) }

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

// ShortHash returns 64 bits of hash in base 36. It shortens ids that a vendor would refuse for their length; it is no
// protection against anybody.
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
