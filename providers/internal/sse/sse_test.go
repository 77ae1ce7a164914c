package sse_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/providers/internal/sse"
)

type event struct {
	Name, Data   string
	NoData       bool
	Unterminated bool
}

func read(r io.Reader) (events []event, err error) {
	for d := sse.NewDecoder(r, share()); ; {
		e, err := d.Next()
		if err != nil {
			return events, err
		}
		events = append(events, event{e.Name, string(e.Data), e.Data == nil, e.Unterminated})
	}
}

func TestDecoder(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []event
	}{
		"nothing":              {"", nil},
		"blank lines":          {"\n\r\n\r", nil},
		"one":                  {"data: a\n\n", []event{{Data: "a"}}},
		"no space":             {"data:a\n\n", []event{{Data: "a"}}},
		"two spaces":           {"data:  a\n\n", []event{{Data: " a"}}},
		"named":                {"event: x\ndata: a\n\n", []event{{Name: "x", Data: "a"}}},
		"two lines":            {"data: a\ndata: b\n\n", []event{{Data: "a\nb"}}},
		"empty data":           {"data\n\ndata:\ndata:\n\n", []event{{}, {Data: "\n"}}},
		"CRLF and CR":          {"data: a\r\n\r\ndata: b\r\rdata: c\n\n", []event{{Data: "a"}, {Data: "b"}, {Data: "c"}}},
		"comments":             {": hi\n\n:\n\ndata: a\n: within\n\n", []event{{Data: "a"}}},
		"other fields":         {"id: 1\nretry: 5\ndata: a\n\n", []event{{Data: "a"}}},
		"name alone":           {"event: ping\n\n", []event{{Name: "ping", NoData: true}}},
		"no blank line":        {"data: a\n\ndata: b\n", []event{{Data: "a"}, {Data: "b", Unterminated: true}}},
		"no line end":          {"data: a", []event{{Data: "a", Unterminated: true}}},
		"no field":             {"{\"error\":1}\n\n", []event{{NoData: true}}},
		"mark":                 {"\uFEFFdata: a\n\n", []event{{Data: "a"}}},
		"many blank lines":     {"data: a\n\n\n\n\ndata: b\n\n", []event{{Data: "a"}, {Data: "b"}}},
		"colons in the value":  {"data: {\"a\":1}\n\n", []event{{Data: `{"a":1}`}}},
		"comment at the end":   {": bye", nil},
		"letters around names": {"xdata: a\ndatax: b\n\n", []event{{NoData: true}}},
	} {
		for kind, r := range map[string]io.Reader{
			"whole": strings.NewReader(tc.in), "byte by byte": iotest.OneByteReader(strings.NewReader(tc.in)),
		} {
			got, err := read(r)
			if d := cmp.Diff(tc.want, got); d != "" || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %v (-want +got):\n%s", name, kind, err, d)
			}
		}
	}
}

func TestDecoderReturnsErrors(t *testing.T) {
	broken := errors.New("cut")
	got, err := read(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)))
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("%v, %v", got, err)
	}
	long := io.MultiReader(strings.NewReader("data: "), bytes.NewReader(make([]byte, sse.MaxEvent)))
	if _, err := read(long); !errors.Is(err, sse.ErrTooLong) {
		t.Errorf("a long event: %v", err)
	}
}

func TestRawHasAllLines(t *testing.T) {
	d := sse.NewDecoder(strings.NewReader(": c\r\nevent: x\rdata: a\n\nrest"), share())
	for _, want := range []string{": c\nevent: x\ndata: a\n", "rest"} {
		if e, err := d.Next(); string(e.Raw) != want || err != nil {
			t.Errorf("%q, %v; want %q", e.Raw, err, want)
		}
	}
}

// FuzzDecoder checks that the sizes of the reads do not change the events, and that nothing panics.
func FuzzDecoder(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", "event: x\r\ndata:a\r\rdata", ": c\n\n\r\n", "\xEF\xBB\xBFdata\n\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		whole, errWhole := read(strings.NewReader(in))
		cut, errCut := read(iotest.HalfReader(iotest.OneByteReader(strings.NewReader(in))))
		if d := cmp.Diff(whole, cut); d != "" || !errors.Is(errWhole, io.EOF) || !errors.Is(errCut, io.EOF) {
			t.Fatalf("%q: %v, %v\n%s", in, errWhole, errCut, d)
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	body := strings.Repeat("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"+
		"\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n", 10_000)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d := sse.NewDecoder(strings.NewReader(body), share())
		for {
			if _, err := d.Next(); err != nil {
				break
			}
		}
	}
}

// share returns a share of a budget that is large enough for a test.
func share() *held.Share { return held.New(1<<30, 0).Share(context.Background(), "", nil) }
