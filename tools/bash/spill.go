package bash

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

const (
	spillPrefix = "pi-bash-"
	spillSuffix = ".log"
	spillRandom = 8 // bytes
)

// SpillPattern matches the files that long outputs are kept in, if TempDir is dir. Whoever confines the read tool should
// let it read them: see workspace.Options.Files.
func SpillPattern(dir string) string {
	return filepath.Join(dir, spillPrefix+strings.Repeat("[0-9a-f]", 2*spillRandom)+spillSuffix)
}

// A spill is a file that is made when it is first written. After a failure, which it keeps, it takes nothing more.
type spill struct {
	dir, path string
	file      *os.File
	err       error
}

func (s *spill) write(p []byte) {
	if s.err != nil || len(p) == 0 {
		return
	}
	if s.file == nil {
		s.path = filepath.Join(s.dir, spillName())
		s.file, s.err = os.OpenFile(s.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if s.err != nil {
			s.file, s.path = nil, ""
			return
		}
	}
	_, s.err = s.file.Write(p)
}

func (s *spill) close() {
	if s.file == nil {
		return
	}
	if err := s.file.Close(); err != nil && s.err == nil {
		s.err = err
	}
	s.file = nil
}

func spillName() string {
	var b [spillRandom]byte
	_, _ = rand.Read(b[:]) // never fails
	return spillPrefix + hex.EncodeToString(b[:]) + spillSuffix
}
