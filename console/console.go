// Package console holds the web console: plain ES modules and CSS, which a browser runs as they are. It is a NATS
// client that speaks by a WebSocket at /nats on the same port as its files; the JavaScript client of bus/client/js is
// its only way to the bus. What a server has to add is GET /config.json, {"prefix": "agent"}.
//
// To change it, change the files in static and reload. Its libraries, static/vendor, are made by console/bundle.
package console

import (
	"embed"
	"errors"
	"io/fs"
	"strings"

	"github.com/loopbus/loopbus/bus/client/js"
)

//go:embed static
var static embed.FS

// Files are those of the console, index.html first. Those below client are the JavaScript client's.
func Files() fs.FS {
	own, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the name is a constant
	}
	return files{own, js.Files()}
}

// files are the console's, and the client's below the directory client.
type files struct{ own, client fs.FS }

func (f files) Open(name string) (fs.File, error) {
	if below, ok := strings.CutPrefix(name, "client/"); ok {
		file, err := f.client.Open(below)
		var path *fs.PathError
		if errors.As(err, &path) {
			path.Path = name
		}
		return file, err
	}
	return f.own.Open(name)
}
