package resources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// contextNames are the possible names of a directory's context file; the first that exists is used.
var contextNames = []string{"AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"}

// roots are the folders that are searched for skills and templates.
var roots = []string{".agents", ".pi"}

// maxOmitted limits the list of omitted files.
const maxOmitted = schemas.MaxResources

const (
	// maxVisited limits the entries of a folder of skills or templates.
	maxVisited = 10000
	// maxRead limits the bytes of all files that are read, also of those that are left out: there may be very many, or
	// many links to one. It is a multiple of what can be announced, and read in less than a second.
	maxRead = 64 * schemas.MaxResourceBytes
)

// Discover searches a directory. The caller adds its path, worker and time. files must not lead out of the directory,
// as those of an [os.Root] do not. The error is the context's cause; files that cannot be read are listed as omitted.
// Discover returns soon after the context ends, unless the file system does not answer.
func Discover(ctx context.Context, files fs.FS) (schemas.Resources, error) {
	f := finder{files: files}
	f.context()
	for _, root := range roots {
		f.skills(ctx, root+"/skills")
		f.templates(ctx, root+"/prompts")
	}
	return f.found, context.Cause(ctx)
}

type finder struct {
	files fs.FS
	found schemas.Resources
	size  int // bytes of the texts found
	bytes int // of the files read
}

func (f *finder) context() {
	for _, name := range contextNames {
		file, err := f.read(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			f.found.Context = append(f.found.Context, file)
		} else {
			f.omit(name, err)
		}
		return
	}
}

// omit lists a file that is left out.
func (f *finder) omit(path string, why error) {
	if len(f.found.Omitted) < maxOmitted {
		f.found.Omitted = append(f.found.Omitted, schemas.OmittedResource{Path: path, Reason: reason(why)})
	}
}

// reason returns an error in the form that is announced: without the path, which is a separate member.
func reason(err error) string {
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		err = p.Err
	}
	text := err.Error()
	return text[:min(len(text), 200)]
}

// read reads a whole file.
func (f *finder) read(path string) (r schemas.Resource, err error) {
	info, err := fs.Stat(f.files, path)
	switch {
	case err != nil:
		return r, err
	case !info.Mode().IsRegular():
		return r, errors.New("it is no regular file")
	case f.bytes >= maxRead:
		return r, fmt.Errorf("%d bytes of files were read before it, which is all that is read", maxRead)
	}
	file, err := f.files.Open(path)
	if err != nil {
		return r, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, schemas.MaxResourceFile+1))
	f.bytes += len(data)
	switch {
	case err != nil:
		return r, err
	case len(data) > schemas.MaxResourceFile:
		return r, fmt.Errorf("it is larger than %d bytes", schemas.MaxResourceFile)
	case !utf8.Valid(data) || slices.Contains(data, 0):
		return r, errors.New("it is no text in UTF-8")
	}
	size, err := announced(data)
	switch {
	case err != nil:
		return r, err
	case f.size+size > schemas.MaxResourceBytes:
		return r, fmt.Errorf("with it there would be more than %d bytes", schemas.MaxResourceBytes)
	}
	f.size += size
	sum := sha256.Sum256(data)
	return schemas.Resource{Path: path, SHA256: hex.EncodeToString(sum[:]), Text: string(data)}, nil
}

// announced returns the length of a text in an announcement.
func announced(text []byte) (int, error) {
	data, err := schemas.Marshal(string(text))
	return len(data), err
}
