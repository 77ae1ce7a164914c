package headerlimit_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/headerlimit"
)

// header returns an encoded header of so many lines, each with a value of so many bytes.
func header(lines, bytes int) string {
	var s strings.Builder
	s.WriteString("NATS/1.0\r\n")
	for n := range lines {
		fmt.Fprintf(&s, "k%d: %s\r\n", n, strings.Repeat("v", bytes))
	}
	return s.String() + "\r\n"
}

func hmsg(header, payload string) string {
	return fmt.Sprintf("HMSG a.b 7 _INBOX.x %d %d\r\n%s%s\r\n", len(header), len(header)+len(payload), header, payload)
}

// pieces is a reader of what is read in pieces of random sizes.
type pieces struct {
	left   []byte
	random *rand.Rand
	most   int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+p.random.IntN(p.most))], p.left)
	p.left = p.left[n:]
	return n, nil
}

// Whatever comes, in whatever pieces: only headers that are too large or too many are replaced.
func TestReader(t *testing.T) {
	t.Parallel()
	left := func(size int, tail string) string {
		return fmt.Sprintf("NATS/1.0\r\n%s: %d\r\n%s\r\n", headerlimit.Name, size, tail)
	}
	last := func(lines, bytes int) string {
		return strings.Join(strings.SplitAfter(header(lines, bytes), "\n")[lines-7:lines+1], "")
	}
	many, huge, one := header(129, 3), header(3, 30_000), header(1, 64<<10)
	parts := []struct{ in, out string }{
		{in: "INFO {\"server_id\":\"HMSG a 1 2 3\"}\r\n"},
		{in: "PING\r\n"},
		{in: "+OK\r\n"},
		{in: "-ERR 'no'\r\n"},
		{in: "MSG a.b 7 3\r\nabc\r\n"},
		{in: "MSG a.b 7 _INBOX.x 0\r\n\r\n"},
		{in: "MSG a.b 7 9\r\nHMSG 1 2\n\r\n"},
		{in: "MSG a.b 7 100000\r\n" + strings.Repeat("\n", 100_000) + "\r\n"},
		{in: hmsg("NATS/1.0 503\r\n\r\n", "")},
		{in: hmsg(header(128, 3), "payload")},
		{in: hmsg(header(2, 30_000), strings.Repeat("p", 70_000))},
		{in: hmsg(many, "payload"), out: hmsg(left(len(many), last(129, 3)), "payload")},
		{in: hmsg(header(20_000, 0), "payload"), out: hmsg(left(len(header(20_000, 0)), ""), "payload")},
		{in: hmsg(header(200, 300), strings.Repeat("p", 99_000)),
			out: hmsg(left(len(header(200, 300)), last(200, 300)), strings.Repeat("p", 99_000))},
		{in: hmsg(huge, "payload"), out: hmsg(left(len(huge), ""), "payload")},
		{in: hmsg(one, ""), out: hmsg(left(len(one), ""), "")},
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, n))
		var in, want bytes.Buffer
		for range 30 {
			p := parts[random.IntN(len(parts))]
			in.WriteString(p.in)
			if p.out == "" {
				p.out = p.in
			}
			want.WriteString(p.out)
		}
		first := random.IntN(in.Len())
		r := headerlimit.NewReader(bytes.Clone(in.Bytes()[:first]), &pieces{in.Bytes()[first:], random, 1 << random.IntN(18)})
		got, err := io.ReadAll(&pieced{r, random})
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			at := 0
			for at < min(len(got), want.Len()) && got[at] == want.Bytes()[at] {
				at++
			}
			t.Fatalf("error %v; %d bytes, want %d; after %q: %.80q, want %.80q", err, len(got), want.Len(),
				got[max(at-40, 0):at], got[at:], want.Bytes()[at:])
		}
	}
}

// pieced reads with buffers of random sizes.
type pieced struct {
	io.Reader
	random *rand.Rand
}

func (p *pieced) Read(b []byte) (int, error) {
	return p.Reader.Read(b[:min(len(b), 1+p.random.IntN(40_000))])
}

// What takes the place of headers can be decoded, and has what a server has added.
func TestStub(t *testing.T) {
	t.Parallel()
	block := strings.TrimSuffix(header(5_000, 1), "\r\n") + "Nats-Subject: s\r\nNats-Sequence: 7\r\n\r\n"
	got, err := io.ReadAll(headerlimit.NewReader(nil, iotest.OneByteReader(strings.NewReader(hmsg(block, "p")))))
	if err != nil {
		t.Fatal(err)
	}
	h, err := nats.DecodeHeadersMsg(got[bytes.IndexByte(got, '\n')+1:])
	kept := h.Get("Nats-Subject") + h.Get("Nats-Sequence")
	if err != nil || !headerlimit.LeftOut(h) || kept != "s7" || len(h) > 9 {
		t.Errorf("%v, %v", h, err)
	}
}

// A header that nats.go would find, and a server would not, is none: those that a server has added stay.
func TestHeadersThatAServerDoesNotSee(t *testing.T) {
	t.Parallel()
	const server = "Nats-Request-Info: mine\r\n"
	for name, forged := range map[string]string{
		"after a line":         "X: y\nNats-Request-Info: forged\r\n",
		"after two":            "X: y\n\nNats-Request-Info: forged\r\n",
		"first":                "\nNats-Request-Info: forged\r\n",
		"before an empty line": "X: Nats-Request-InfoNats-Request-Info\r\nNats-Request-Info: forged\r\n\r\nY: z\r\n",
		"before two":           "Nats-Request-Info: forged\r\n\r\n\r\n",
		"the last of them":     "X: y\r\nZ: a\nNats-Request-Info: forged\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := hmsg("NATS/1.0\r\n"+forged+server+"\r\n", "p") + hmsg(header(1, 1), "next")
			got, err := io.ReadAll(headerlimit.NewReader(nil, iotest.OneByteReader(strings.NewReader(in))))
			if err != nil || !bytes.HasSuffix(got, []byte(hmsg(header(1, 1), "next"))) {
				t.Fatalf("%q, %v", got, err)
			}
			h, err := nats.DecodeHeadersMsg(got[bytes.IndexByte(got, '\n')+1:])
			if err != nil || !headerlimit.LeftOut(h) || len(h["Nats-Request-Info"]) != 1 ||
				h.Get("Nats-Request-Info") != "mine" {
				t.Errorf("%v, %v", h, err)
			}
		})
	}
}

// A server puts its header in the place of the last two bytes of a block, whatever they are. Without the end of a line
// there nobody else sees that header: a client's own counts for nothing then.
func TestHeadersBehindAnUnfinishedLine(t *testing.T) {
	t.Parallel()
	const forged = "X: Nats-Request-InfoNats-Request-Info\r\nNats-Request-Info: forged\r\n"
	for _, rest := range []string{"Y: ", "Y", "Y: z\r", "", "Nats-Request-Info:", "Nats-Request-Info: forged, "} {
		in := hmsg("NATS/1.0\r\n"+forged+rest+"Nats-Request-Info: mine\r\n\r\n", "p") + hmsg(header(1, 1), "next")
		got, err := io.ReadAll(headerlimit.NewReader(nil, strings.NewReader(in)))
		if err != nil || !bytes.HasSuffix(got, []byte(hmsg(header(1, 1), "next"))) {
			t.Fatalf("%q, %v", got, err)
		}
		h, err := nats.DecodeHeadersMsg(got[bytes.IndexByte(got, '\n')+1:])
		if infos := h["Nats-Request-Info"]; err != nil || len(infos) > 0 && infos[len(infos)-1] != "mine" {
			t.Errorf("behind %q: %v, %v", rest, h, err)
		}
	}
}

// What is no protocol ends the connection, and takes no memory.
func TestReaderRefuses(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]io.Reader{
		"no size":     strings.NewReader("MSG a b\r\n"),
		"no sizes":    strings.NewReader("HMSG a 7\r\n"),
		"wrong sizes": strings.NewReader("HMSG a 7 9 3\r\n"),
		"negative":    strings.NewReader("MSG a 7 -3\r\n"),
		"no end":      io.LimitReader(endless{}, 16<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := io.ReadAll(headerlimit.NewReader(nil, in)); err == nil || len(got) > 0 {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return copy(b, bytes.Repeat([]byte("x"), len(b))), nil }

func BenchmarkReader(b *testing.B) {
	message := hmsg(header(6, 20), strings.Repeat("p", 300))
	all := bytes.Repeat([]byte(message), 1000)
	buf := make([]byte, 32<<10)
	b.SetBytes(int64(len(all)))
	b.ReportAllocs()
	for b.Loop() {
		r := headerlimit.NewReader(nil, bytes.NewReader(all))
		for {
			if _, err := r.Read(buf); err != nil {
				break
			}
		}
	}
}
