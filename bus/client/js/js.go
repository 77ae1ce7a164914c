// Package js holds the JavaScript client of loopbus as ES modules, so that programs can serve them to browsers. In
// Node.js they are imported as they are; docs/client.md describes them.
package js

import (
	"embed"
	"io/fs"
)

//go:embed *.js
var files embed.FS

// Files are the modules by name; loopbus.js is the one to import.
func Files() fs.FS { return files }
