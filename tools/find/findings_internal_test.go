package find

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/loopbus/loopbus/tools/internal/truncate"
)

// A few names can make many long paths: what is found takes no more memory than what is shown.
func TestWhatIsNotShownIsNotKept(t *testing.T) {
	const files, most = 2000, 2 << 20
	deep := strings.TrimSuffix(strings.Repeat(strings.Repeat("d", 2000)+"/", 2), "/")
	tree := fstest.MapFS{}
	for i := range files {
		tree[fmt.Sprintf("%s/%04d", deep, i)] = &fstest.MapFile{}
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	f := findings{limit: 2 * files, out: truncate.NewHead(truncate.NoLineLimit, truncate.MaxBytes)}
	if err := f.search(t.Context(), tree, ".", func(_, name string) bool { return len(name) == 4 }); err != nil {
		t.Fatal(err)
	}
	if kept := heap() - before; kept > most || f.count != files {
		t.Errorf("%d bytes are kept of %d paths", kept, f.count)
	}
	runtime.KeepAlive(&f)
	runtime.KeepAlive(tree)
}
