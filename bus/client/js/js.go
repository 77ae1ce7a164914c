// Package js embeds the JavaScript client of loopbus as ES modules, so that Go programs can serve it to browsers. In
// Node.js, import the files directly; docs/client.md describes the client.
package js

import (
	"embed"
	"io/fs"
)

//go:embed *.js
var files embed.FS

// Files returns the modules by name. Import loopbus.js.
func Files() fs.FS { return files }
