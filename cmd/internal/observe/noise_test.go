package observe

import (
	"bytes"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"testing"

	"github.com/aws/smithy-go/logging"
	"go.opentelemetry.io/otel"
)

// What libraries print by themselves is in the program's log, a record each. The test is not parallel: what libraries
// print to is the process's.
func TestNoiseOfLibraries(t *testing.T) {
	before := slog.Default()
	t.Cleanup(func() {
		slog.SetDefault(before)
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	})
	var out bytes.Buffer
	takeNoise(slog.New(slog.NewJSONHandler(&out, nil)))
	log.Printf("a library's %s", "warning")
	logging.StandardLogger{Logger: log.Default()}.Logf(logging.Warn, "of AWS") // as a provider is set up
	slog.Warn("its own record")
	otel.Handle(errors.New("traces export: connection refused"))
	want := []struct{ level, msg, err string }{
		{"INFO", "a library's warning", ""}, {"INFO", "WARN of AWS", ""}, {"WARN", "its own record", ""},
		{"WARN", "OpenTelemetry reported an error", "traces export: connection refused"},
	}
	lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
	if len(lines) != len(want) {
		t.Fatalf("got %s", out.Bytes())
	}
	for i, line := range lines {
		var r struct{ Level, Msg, Err, From string }
		if err := json.Unmarshal(line, &r); err != nil || r.From != "library" || r.Level != want[i].level ||
			r.Msg != want[i].msg || r.Err != want[i].err {
			t.Errorf("got %s, %v, want %+v", line, err, want[i])
		}
	}
}
