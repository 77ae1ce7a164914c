package workspace

import (
	"errors"
	"io"
	"math"
	"slices"
	"syscall"
	"testing"
)

// A fakeFile is a file whose disk has no room for a part of it.
type fakeFile struct {
	content  []byte
	from, to int  // this part cannot be written
	broken   bool // nothing can be written after a write has failed
	blind    bool // it is not open for reading
	stiff    bool // it cannot be cut
}

func (f *fakeFile) ReadAt(p []byte, at int64) (int, error) {
	if f.blind {
		return 0, syscall.EBADF
	}
	n := copy(p, f.content[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *fakeFile) WriteAt(p []byte, at int64) (n int, err error) {
	for ; n < len(p); n++ {
		i := int(at) + n
		if i >= f.from && i < f.to {
			if f.broken {
				f.from, f.to = 0, math.MaxInt
			}
			return 0, syscall.ENOSPC // as of an [os.File]
		}
		if i >= len(f.content) {
			f.content = append(f.content, make([]byte, i+1-len(f.content))...)
		}
		f.content[i] = p[n]
	}
	return n, nil
}

func (f *fakeFile) Truncate(size int64) error {
	if f.stiff && size < int64(len(f.content)) {
		return syscall.EIO
	}
	f.content = slices.Grow(f.content, int(size))[:size]
	return nil
}

// Content that cannot be written leaves the old one, or an error that says that there is a part of each. That one hides
// the system's, which tools word so that it reads as if nothing had happened.
func TestReplacingOnAFullDisk(t *testing.T) {
	t.Parallel()
	const full = math.MaxInt
	for _, c := range []struct {
		name string
		file fakeFile
		data string
		left string
		want error // of the system, or errMixed
	}{
		{"longer", fakeFile{}, "abcdef", "abcdef", nil},
		{"shorter", fakeFile{}, "ab", "ab", nil},
		{"equally long", fakeFile{}, "abcd", "abcd", nil},
		{"empty", fakeFile{to: full}, "", "", nil},
		{"blind", fakeFile{blind: true}, "abc", "abc", nil},
		{"no room behind", fakeFile{from: 5, to: full}, "abcdef", "1234", syscall.ENOSPC},
		{"no room", fakeFile{to: full}, "abcdef", "1234", syscall.ENOSPC},
		{"no room for the shorter", fakeFile{from: 2, to: full}, "abc", "1234", syscall.ENOSPC},
		{"a hole without room", fakeFile{from: 2, to: 3}, "abcdef", "1234", syscall.ENOSPC},
		{"it cannot be cut", fakeFile{stiff: true}, "ab", "1234", syscall.EIO},
		{"blind without room", fakeFile{blind: true, to: full}, "abcdef", "1234", syscall.ENOSPC},
		{"blind with a hole", fakeFile{blind: true, from: 2, to: 3}, "abcdef", "ab34ef", errMixed},
		{"blind and cannot be cut", fakeFile{blind: true, stiff: true}, "ab", "ab34", errMixed},
		{"no room to put back", fakeFile{from: 2, to: full, broken: true}, "abc", "ab34", errMixed},
		{"it cannot be cut again", fakeFile{from: 5, to: full, stiff: true}, "abcdef", "1234e", errMixed},
	} {
		c.file.content = []byte("1234")
		err := replace(&c.file, 4, []byte(c.data))
		if string(c.file.content) != c.left || !errors.Is(err, c.want) {
			t.Errorf("%s: left %q, %v", c.name, c.file.content, err)
		}
		if c.want == errMixed && errors.As(err, new(syscall.Errno)) {
			t.Errorf("%s: it shows the system's error: %v", c.name, err)
		}
	}
}
