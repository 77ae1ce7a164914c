package observe

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// Off is the value of --http that serves nothing.
const Off = "off"

// Settings configures logging, metrics and traces. It is embedded in a command's struct.
type Settings struct {
	HTTP     string `name:"http" placeholder:"ADDR" brief:"" help:"Serve health and metrics here, or off${httpDefault}."`
	OTLP     string `name:"otlp" placeholder:"URL" help:"Send traces to this OTLP/HTTP endpoint."`
	LogLevel string `brief:"" help:"Set the log level: debug, info, warn or error${levelDefault}."`
	LogJSON  bool   `name:"log-json" help:"Log in JSON."`
}

// Default fills in empty settings.
func (o *Settings) Default(http, level string) {
	o.HTTP, o.LogLevel = cmp.Or(o.HTTP, http), cmp.Or(o.LogLevel, level)
}

// Check validates addresses and the level.
func (o *Settings) Check(*cli.Call) (errs []error) {
	if o.HTTP != Off {
		errs = append(errs, cli.CheckAddress("--http", o.HTTP))
	}
	if o.OTLP != "" {
		errs = append(errs, checkEndpoint(o.OTLP))
	}
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, o.LogLevel) {
		errs = append(errs, fmt.Errorf("--log-level: %q is not debug, info, warn or error", o.LogLevel))
	}
	return errs
}

// checkEndpoint returns an error unless endpoint is an HTTP URL.
func checkEndpoint(endpoint string) error {
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--otlp: %q is not a URL such as http://127.0.0.1:4318", endpoint)
	}
	return nil
}

// Logger returns the logger that the settings select, on standard error. It leaves lines out while nobody reads that,
// and of a message that comes too often.
func (o *Settings) Logger(streams *cli.IO) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.LogLevel)) // checked
	options := cli.LogOptions(level)
	logger := func(to io.Writer) *slog.Logger {
		if o.LogJSON {
			return slog.New(newSparing(slog.NewJSONHandler(to, options)))
		}
		return slog.New(newSparing(slog.NewTextHandler(to, options)))
	}
	log := logger(&patient{to: streams.Stderr, note: func(left int) []byte {
		var line bytes.Buffer
		logger(&line).Error("nobody has read standard error: lines of the log were left out", "lines", left)
		return line.Bytes()
	}})
	if streams.Stderr == os.Stderr { // not in a test, which must not change global loggers
		takeNoise(log)
	}
	return log
}
