package read_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/read"
)

func setUp(t *testing.T, o read.Options) (tool tools.Tool, root string) {
	t.Helper()
	rig := tooltest.New(t)
	o.Workspace = rig.Workspace
	return read.New(o), rig.Root
}

func put(t *testing.T, root, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(root, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, tool tools.Tool, args string) (schemas.ToolResult, bool) {
	t.Helper()
	return tool.Run(t.Context(), tools.Call{Arguments: json.RawMessage(args)}, nil)
}

func TestPathsOutsideAreRefused(t *testing.T) {
	tool, root := setUp(t, read.Options{})
	for _, path := range []string{"/etc/passwd", "../none", "/no/such"} {
		result, isError := run(t, tool, fmt.Sprintf(`{"path":%q}`, path))
		want := "is outside " + root + ", and only files inside may be used"
		if got := result.Content.JoinText(); !isError || !strings.HasSuffix(got, want) {
			t.Errorf("%s: %v %q", path, isError, got)
		}
	}
}

func TestPipesAreRefused(t *testing.T) {
	tool, root := setUp(t, read.Options{})
	if err := syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	result, isError := run(t, tool, `{"path":"pipe"}`)
	if got := result.Content.JoinText(); !isError || got != "Not a regular file: "+root+"/pipe" {
		t.Errorf("%v %q", isError, got)
	}
}

func TestSelections(t *testing.T) {
	tool, root := setUp(t, read.Options{})
	put(t, root, "f", []byte("1\n2\n3\n"))
	for _, c := range []struct{ args, want string }{
		{`{"path":"f","offset":-5}`, "1\n2\n3\n"},
		{`{"path":"f","limit":4}`, "1\n2\n3\n"},
		{`{"path":"f","limit":1e300}`, "1\n2\n3\n"},
		{`{"path":"f","limit":0}`, "\n\n[4 more lines in file. Use offset=1 to continue.]"},
		{`{"path":"f","limit":-2}`, "\n\n[4 more lines in file. Use offset=1 to continue.]"},
		{`{"path":"f","offset":2,"limit":1}`, "2\n\n[2 more lines in file. Use offset=3 to continue.]"},
		{`{"path":"f","offset":5}`, "Offset 5 is beyond end of file (4 lines total)"},
		{`{"path":"f","offset":1e300,"limit":1e300}`,
			"Offset 1" + strings.Repeat("0", 300) + " is beyond end of file (4 lines total)"},
		{`{"path":[]}`, "Validation failed for tool \"read\":\n  - path: must be string\n\nReceived arguments:\n{\n  " +
			"\"path\": []\n}"},
	} {
		if result, _ := run(t, tool, c.args); !sameText(result, c.want) {
			t.Errorf("%s: got %q, want %q", c.args, result.Content.JoinText(), c.want)
		}
	}
}

// 1e300 is not a power of ten as a float64; only its beginning and end are compared.
func sameText(r schemas.ToolResult, want string) bool {
	got := r.Content.JoinText()
	return got == want || len(want) > 300 && len(got) == len(want) && got[:9] == want[:9] &&
		strings.HasSuffix(got, want[len(want)-40:])
}

// What is read does not depend on where the file's pieces begin, also for lines and characters across them.
func TestLargeFiles(t *testing.T) {
	tool, root := setUp(t, read.Options{})
	line := strings.Repeat("é", 333) + "\xff\n"
	put(t, root, "f", []byte(strings.Repeat(line, 1000)))
	result, _ := run(t, tool, `{"path":"f","offset":900,"limit":10}`)
	want := strings.Repeat(strings.Repeat("é", 333)+"\uFFFD\n", 10) +
		"\n[92 more lines in file. Use offset=910 to continue.]"
	if got := result.Content.JoinText(); got != want {
		t.Errorf("got %d bytes: %.80q", len(got), got)
	}
}

func TestReadingStopsWhenCancelled(t *testing.T) {
	tool, root := setUp(t, read.Options{})
	put(t, root, "f", []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	result, isError := tool.Run(ctx, tools.Call{Arguments: json.RawMessage(`{"path":"f"}`)}, nil)
	if !isError || result.Content.JoinText() != "Operation aborted" {
		t.Errorf("%v %q", isError, result.Content.JoinText())
	}
}

func noise(width, height int) image.Image {
	rng := rand.New(rand.NewPCG(1, 2))
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = byte(rng.Uint32())
	}
	return img
}

func encodePNG(t *testing.T, img image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// An image whose bytes are too many is scaled until it fits, and the note says by how much.
func TestImagesAreScaledToTheBytesAllowed(t *testing.T) {
	const most = 20_000
	tool, root := setUp(t, read.Options{MaxImageBytes: most})
	put(t, root, "noise.png", encodePNG(t, noise(400, 300)))
	result, isError := run(t, tool, `{"path":"noise.png"}`)
	if isError || len(result.Content) != 2 {
		t.Fatalf("%v %q", isError, result.Content.JoinText())
	}
	shown := result.Content[1].(schemas.Image)
	data, err := base64.StdEncoding.DecodeString(shown.Data)
	if err != nil || len(shown.Data) >= most {
		t.Fatalf("%d bytes, %v", len(shown.Data), err)
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || "image/"+format != shown.MimeType {
		t.Fatalf("%s, %v", format, err)
	}
	want := fmt.Sprintf("Read image file [%s]", shown.MimeType)
	if config.Width != 400 {
		want += fmt.Sprintf("\n[Image: original 400x300, displayed at %dx%d. Multiply coordinates by %.2f to map to "+
			"original image.]",
			config.Width, config.Height, 400/float64(config.Width))
	}
	if got := result.Content.JoinText(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOtherImages(t *testing.T) {
	tool, root := setUp(t, read.Options{MaxImageBytes: 2000})
	small := image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black, color.White})
	var b bytes.Buffer
	if err := gif.Encode(&b, small, nil); err != nil {
		t.Fatal(err)
	}
	still := encodePNG(t, small)
	webp, err := base64.StdEncoding.DecodeString("UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==")
	if err != nil {
		t.Fatal(err)
	}
	animated := append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02\x00\x00\x00"), 1, 0, 0, 1, 0, 0)
	control := binary.BigEndian.AppendUint32(nil, 8)
	control = append(control, "acTL12345678crc!"...)
	const omitted = "\n[Image omitted: could not be resized below the inline image size limit.]"
	huge := bytes.Clone(still)
	binary.BigEndian.PutUint32(huge[16:], 1<<30)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"gif":                 {b.Bytes(), "Read image file [image/gif]"},
		"webp":                {webp, "Read image file [image/webp]"},
		"animated webp":       {animated, "Read image file [image/webp]"},
		"animated png":        {append(append(bytes.Clone(still[:33]), control...), still[33:]...), "\uFFFDPNG\r\n\x1a\n"},
		"png signature alone": {still[:8], "\uFFFDPNG\r\n\x1a\n"},
		"jpeg-ls":             {[]byte("\xff\xd8\xff\xf7"), "\uFFFD\uFFFD\uFFFD\uFFFD"},
		"huge png":            {huge, "Read image file [image/png]" + omitted},
		"broken gif":          {[]byte("GIF87a"), "Read image file [image/gif]" + omitted},
	} {
		t.Run(name, func(t *testing.T) {
			put(t, root, "f", c.data)
			result, isError := run(t, tool, `{"path":"f"}`)
			shown := strings.Contains(c.want, "image/") && !strings.HasSuffix(c.want, omitted)
			if got := result.Content.JoinText(); isError || !strings.HasPrefix(got, c.want) ||
				shown != (len(result.Content) == 2 && got == c.want) {
				t.Errorf("%v %q, want %q", isError, got, c.want)
			}
		})
	}
}
