package archive

import (
	"fmt"
	"maps"
	"math"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// maxHeader is the size of the largest header that a server stores.
const maxHeader = math.MaxUint16

// checkHeader returns an error for a header that no archive has: one that a server would obey, refuse, or store
// differently.
func checkHeader(header map[string][]string) error {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if foreign(name) {
			return fmt.Errorf("a log's message has no header %.200q", name)
		}
		if len(header[name]) == 0 {
			return fmt.Errorf("the header %.200q has no value", name)
		}
		for _, v := range header[name] {
			if !storedAsItIs(v) {
				return fmt.Errorf("the header %.200q would not be stored as it is: %.200q", name, v)
			}
		}
	}
	if size := headerSize(header); size > maxHeader {
		return fmt.Errorf("the headers have %d bytes, a server stores %d", size, maxHeader)
	}
	return nil
}

// foreign reports whether the name of a header is not a log's. The hash need not cover such a header, and the server
// would do as it says: take the message for one that is there already, or send traces of it, and drop it where the
// user may not send them. Client libraries would take one with a status for an answer of the server, and deliver it to
// nobody.
func foreign(name string) bool {
	return !headerName.MatchString(name) || strings.HasPrefix(strings.ToLower(name), "nats-") ||
		strings.EqualFold(name, "Status") || strings.EqualFold(name, "Description") ||
		strings.EqualFold(name, "traceparent")
}

// headerName is what a header may be called; another one could be several.
var headerName = regexp.MustCompile(`^[A-Za-z0-9-]+$`)

// storedAsItIs reports whether the value of a header is what a reader of the stored message gets. The client library
// writes spaces for line breaks, and no white space at either end. JSON holds valid UTF-8 only.
func storedAsItIs(value string) bool {
	return !strings.ContainsAny(value, "\r\n") && value == textproto.TrimString(value) && utf8.ValidString(value)
}

// headerSize returns the bytes of a header as it is sent, with the expectation and the id of the restore that are added
// to it.
func headerSize(header map[string][]string) int {
	const expectation = len(jetstream.ExpectedLastSubjSeqHeader) + len(": 18446744073709551615\r\n")
	const restore = len(schemas.HeaderRestore) + len(": 12345678901234567890123456\r\n") // [rand.Text]
	return (&nats.Msg{Header: header}).Size() + expectation + restore
}
