package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
)

// file serves the console's files. A path that does not exist and does not look like a file name is a place in the
// console: it gets the console's page.
func (s *Site) file(w http.ResponseWriter, r *http.Request) {
	if s.o.Files == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.NotFound(w, r)
		return
	}
	name := strings.Trim(path.Clean(r.URL.Path), "/")
	if name == "" || path.Ext(name) == "" && strings.Contains(r.Header.Get("Accept"), "text/html") {
		name = "index.html"
	}
	data, err := fs.ReadFile(s.o.Files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(data)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:16])+`"`)
	w.Header().Set("Cache-Control", "no-cache") // browsers revalidate each time, and load a file only if it has changed
	http.ServeContent(w, r, path.Base(name), time.Time{}, bytes.NewReader(data))
}
