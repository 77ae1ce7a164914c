package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// imageTypes are the image formats that all vendors accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// input returns the prompt with its files. Only a text that begins with / may name a prompt template.
func (o *onceSettings) input(stdin io.Reader) (schemas.Input, error) {
	in := schemas.Input{Text: o.Prompt, Expand: strings.HasPrefix(o.Prompt, "/")}
	room := schemas.MaxInputBytes
	for _, path := range o.Attach {
		data, err := readFile(path, stdin, room)
		if err != nil {
			return in, fmt.Errorf("--attach: %w", err)
		}
		room -= len(data)
		if err := attach(&in, path, data); err != nil {
			return in, fmt.Errorf("--attach: %w", err)
		}
	}
	return in, nil
}

// readFile reads a file, or standard input for "-", of at most room bytes.
func readFile(path string, stdin io.Reader, room int) ([]byte, error) {
	name := path
	if path == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		stdin = f
	}
	data, err := io.ReadAll(io.LimitReader(stdin, int64(room)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(data) > room:
		return nil, fmt.Errorf("%s: all attachments together have more than %d bytes", name, schemas.MaxInputBytes)
	case len(data) == 0:
		return nil, fmt.Errorf("%s is empty", name)
	}
	return data, nil
}

// attach adds a file to an input: an image as an image, text after the prompt.
func attach(in *schemas.Input, path string, data []byte) error {
	media := http.DetectContentType(data)
	for _, known := range imageTypes {
		if media == known {
			in.Images = append(in.Images, schemas.Image{MimeType: media, Data: base64.StdEncoding.EncodeToString(data)})
			return nil
		}
	}
	if !utf8.Valid(data) {
		return fmt.Errorf("%s is neither text nor an image (%s)", path, strings.Join(imageTypes, ", "))
	}
	name := filepath.Base(path)
	if path == "-" {
		name = "stdin"
	}
	in.Text += fmt.Sprintf("\n\n<file name=%q>\n%s\n</file>", cli.Visible(name), strings.TrimSuffix(string(data), "\n"))
	return nil
}
