package tooltest

import "os"

// ComeAndGo puts a link to target in the place of a directory below the root and takes it away again, all the time,
// until stop is called. In the end the directory is back.
func (r *Rig) ComeAndGo(name, target string) (stop func()) {
	quit, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- swap(r.Path(name), target, quit) }()
	return func() {
		r.t.Helper()
		close(quit)
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	}
}

func swap(dir, target string, quit <-chan struct{}) error {
	for {
		if err := os.Rename(dir, dir+".real"); err != nil {
			return err
		}
		_ = os.Symlink(target, dir)              // unless somebody else was faster
		for os.Rename(dir+".real", dir) != nil { // somebody may have been faster again
			_ = os.RemoveAll(dir)
		}
		select {
		case <-quit:
			return nil
		default:
		}
	}
}
