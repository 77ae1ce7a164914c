package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
)

// errMixed is wrapped by the error of a file that could be neither written nor left as it was.
var errMixed = errors.New("the file may have a part of each: write it again as a whole")

// Replace replaces the content of a file that is open for writing. It writes in place: mode, owner and hard links are
// kept. If that fails, as on a full disk, the file has its old content, or the error says that it may not have. What
// was overwritten can be put back only if the file is open for reading too. If the process is killed in the meantime,
// the file may have partial content.
func Replace(file *os.File, data []byte) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return replace(file, info.Size(), data)
}

// An openFile is what replace needs of an [os.File].
type openFile interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
}

func replace(file openFile, size int64, data []byte) error {
	common := min(size, int64(len(data)))
	if _, err := file.WriteAt(data[common:], size); err != nil { // first what needs room: nothing is lost yet
		return putBack(file, size, nil, err)
	}
	old := make([]byte, common)
	_, unread := file.ReadAt(old, 0)
	_, err := file.WriteAt(data[:common], 0)
	if err == nil && common < size {
		err = file.Truncate(common)
	}
	switch {
	case err == nil:
		return nil
	case unread != nil:
		return mixed(err, unread)
	}
	return putBack(file, size, old, err)
}

// putBack restores the beginning and the size of a file that could not be replaced.
func putBack(file openFile, size int64, beginning []byte, failed error) error {
	_, err := file.WriteAt(beginning, 0) // fails again where the new content could not be written
	if e := file.Truncate(size); e != nil {
		return mixed(failed, e)
	}
	if err != nil {
		now := make([]byte, len(beginning)) // a failed WriteAt of a file does not say how much it has written
		if _, e := file.ReadAt(now, 0); e != nil || !bytes.Equal(now, beginning) {
			return mixed(failed, err)
		}
	}
	return failed
}

// mixed hides the errors of the system: whoever words those would leave the rest out.
func mixed(failed, back error) error {
	return fmt.Errorf("%v; its old content could not be put back (%v): %w", failed, back, errMixed)
}
