package tooltest

import "os"

// SwapWithLink replaces a directory below the root by a link to target and restores it, over and over, until stop is
// called. When stop returns the directory is back.
func (r *Rig) SwapWithLink(name, target string) (stop func()) {
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
		_ = os.Symlink(target, dir)              // fails if the tool has created dir in the meantime
		for os.Rename(dir+".real", dir) != nil { // fails as long as the tool creates dir again
			_ = os.RemoveAll(dir)
		}
		select {
		case <-quit:
			return nil
		default:
		}
	}
}
