//go:build unix

package console_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// atOnce is how many tests run at once. They wait for the browser most of the time; some of them keep it busy.
const atOnce = 8

func TestMain(m *testing.M) {
	suite.Parallel(atOnce)
	if err := process.AdoptOrphans(); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := theBrowser.close(); err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(process.NothingLeft(code))
}

// browser is the one of all tests. Each window is a place of its own in it, with cookies of its own.
type browser struct {
	once   sync.Once
	path   string
	ctx    context.Context
	cancel func()
	err    error
}

var theBrowser browser

// open starts the browser. A path of "" says that there is none.
func (b *browser) open() (path string, ctx context.Context, err error) {
	b.once.Do(func() {
		for _, name := range []string{"chromium-headless-shell", "chromium", "google-chrome"} {
			if b.path, b.err = exec.LookPath(name); b.err == nil {
				break
			}
		}
		if b.err != nil {
			b.path, b.err = "", nil
			return
		}
		alloc, end := chromedp.NewExecAllocator(context.Background(), chromedp.ExecPath(b.path), chromedp.NoSandbox,
			chromedp.DisableGPU, chromedp.Headless, chromedp.WindowSize(1280, 800))
		var cancel func()
		b.ctx, cancel = chromedp.NewContext(alloc)
		b.cancel = func() { cancel(); end() }
		b.err = chromedp.Do(b.ctx)
	})
	return b.path, b.ctx, b.err
}

// close ends the browser and waits for its processes.
func (b *browser) close() error {
	if b.cancel == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	err := chromedp.Cancel(ctx)
	b.cancel()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// needsBrowser skips the test where there is no browser. In CI that is a failure.
func needsBrowser(t *testing.T) context.Context {
	t.Helper()
	path, ctx, err := theBrowser.open()
	switch how := "install chromium-headless-shell (apt-get install chromium-headless-shell)"; {
	case err != nil:
		t.Fatal(err)
	case path == "" && os.Getenv("CI") != "":
		t.Fatal(how)
	case path == "":
		t.Skip(how)
	}
	return ctx
}
