package observe

import (
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// A log that nobody reads holds nobody up, and says later how many lines it has left out.
func TestALogThatNobodyReads(t *testing.T) {
	t.Parallel()
	for _, json := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			reader, writer := io.Pipe()
			log := (&Settings{LogJSON: json}).Logger(&cli.IO{Stderr: writer})
			began := time.Now()
			for range 10 {
				log.Info("a line")
			}
			if took := time.Since(began); took > patience {
				t.Errorf("ten lines took %v", took)
			}
			lines := make(chan string)
			go func() {
				all, _ := io.ReadAll(reader)
				lines <- string(all)
			}()
			synctest.Wait()
			log.Log(t.Context(), slog.LevelError, "the last one")
			_ = writer.Close()
			all := strings.Split(strings.TrimSpace(<-lines), "\n")
			if len(all) != 3 || !strings.Contains(all[0], "a line") || !strings.Contains(all[1], "left out") ||
				!strings.Contains(all[1], "9") || !strings.Contains(all[2], "the last one") {
				t.Errorf("%q", all)
			}
		})
	}
}
