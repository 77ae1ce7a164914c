package cached

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

func TestCacheKeepsWhatIsUsed(t *testing.T) {
	t.Parallel()
	c := newCache(1000)
	schema := func(n, values int) *toolargs.Schema {
		t.Helper()
		s, err := c.schema(json.RawMessage(fmt.Sprintf(`{"title":"%d","enum":[0%s]}`, n, strings.Repeat(",1", values))))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	used := schema(0, 10)
	for n := range 100 {
		schema(1+n, 200)
		if schema(0, 10) != used {
			t.Fatalf("after %d schemas the one that is used is compiled again", n+1)
		}
		if c.cost > 1000 || len(c.byText) != c.newest.Len() {
			t.Fatalf("after %d schemas %d are remembered, %d by text, with a cost of %d", n+1, c.newest.Len(),
				len(c.byText), c.cost)
		}
	}
	large := schema(1000, 5000)
	if schema(1000, 5000) != large || c.newest.Len() != 1 {
		t.Errorf("with a schema larger than the limit %d are remembered", c.newest.Len())
	}
	if _, err := c.schema(json.RawMessage(`{"pattern":"("}`)); err == nil || c.newest.Len() != 1 {
		t.Errorf("a broken schema: %v, and %d are remembered", err, c.newest.Len())
	}
}
