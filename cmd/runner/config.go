package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// options are the runner's settings.
type options struct {
	nats, listen, store, prefix, creds string
	syncAlways                         bool
	partitions, replicas               int

	id, model, script, systemPrompt, thinking string
	played                                    *scripted.Model // the script, once it has been read
	runTimeout, idleTimeout, abortGrace       time.Duration
	maxTurns, maxTokens                       int
	maxCost                                   float64
	updateInterval, stopTimeout               time.Duration

	tools       []string
	toolsGiven  bool
	root        string
	concurrency int

	session, prompt string
	promptGiven     bool
	json            bool

	http, otlp, logLevel string
	logJSON              bool
}

// oneShot reports whether this is the one-shot form.
func (o *options) oneShot() bool { return o.promptGiven }

// embedded reports whether the runner brings its own server.
func (o *options) embedded() bool { return o.nats == "" }

func define(o *options) *config.Set {
	s := config.New("runner", "runner drives agents on a message bus; with --prompt, one run and out.")
	s.String(&o.nats, "nats", "", "URL of the NATS server; without it the runner starts one of its own")
	s.String(&o.listen, "listen", "", "address of the runner's own server (default 127.0.0.1:4222, with --prompt a free port)")
	s.String(&o.store, "store", "", "directory of the runner's own server (default loopbus-data, with --prompt a temporary one)")
	s.Bool(&o.syncAlways, "sync-always", false, "own server: fsync before every acknowledgement")
	s.String(&o.prefix, "prefix", schemas.DefaultPrefix, "first token of every subject")
	s.String(&o.creds, "creds", "", "NATS credentials file")
	s.Int(&o.partitions, "partitions", 64, "partitions of the inbox, fixed when the streams are made")
	s.Int(&o.replicas, "replicas", 1, "replicas of the streams")
	s.String(&o.id, "id", "", "id of this runner, used by no other (default random)")
	s.String(&o.model, "model", "", "model: rehearsal or scripted (default rehearsal)")
	s.String(&o.script, "script", "", "file that the model scripted plays")
	s.String(&o.systemPrompt, "system-prompt", "", "system prompt of sessions that set none")
	s.String(&o.thinking, "thinking", string(schemas.ThinkingOff), "thinking level: off, minimal, low, medium, high, xhigh")
	s.Duration(&o.runTimeout, "run-timeout", 48*time.Hour, "longest a run may take, 0 for no limit")
	s.Duration(&o.idleTimeout, "idle-timeout", 2*time.Minute, "longest a model may say nothing, 0 for no limit")
	s.Duration(&o.abortGrace, "abort-grace", 10*time.Second, "time tools get to stop when a run is aborted")
	s.Int(&o.maxTurns, "max-turns", 0, "turns after which a run ends, 0 for no limit")
	s.Int(&o.maxTokens, "max-tokens", 0, "tokens after which a run ends, 0 for no limit")
	s.Float(&o.maxCost, "max-cost", 0, "US dollars after which a run ends, 0 for no limit")
	s.Duration(&o.updateInterval, "update-interval", 25*time.Millisecond, "deltas are joined to one message in this time, 0 for each as it comes")
	s.Duration(&o.stopTimeout, "stop-timeout", 10*time.Second, "time running work gets when the runner stops")
	s.List(&o.tools, "tools", strings.Join(toolserve.Names(), ","), "built-in tools to serve (with --nats none unless given)")
	s.String(&o.root, "root", ".", "directory the tools work in; paths outside it are refused")
	s.Int(&o.concurrency, "concurrency", 8, "calls of each tool at once")
	s.String(&o.session, "session", "", "session of the prompt (default a new one)")
	s.String(&o.prompt, "prompt", "", "one-shot: send this prompt, show the run, exit 0 if it ends normally")
	s.Bool(&o.json, "json", false, "one-shot: print CloudEvents, one JSON per line")
	s.String(&o.http, "http", "", "address of /healthz, /readyz and /metrics (default 127.0.0.1:8080, off with --prompt; off turns it off)")
	s.String(&o.otlp, "otlp", "", "OTLP/HTTP endpoint for traces, such as http://127.0.0.1:4318")
	s.String(&o.logLevel, "log-level", "", "debug, info, warn or error (default info, with --prompt warn)")
	s.Bool(&o.logJSON, "log-json", false, "log JSON")
	return s
}

// parse reads and checks the settings; nothing has been started when it fails.
func parse(args []string, getenv func(string) string, out io.Writer) (*options, error) {
	o := new(options)
	s := define(o)
	s.Check(func() error {
		o.promptGiven, o.toolsGiven = s.Given("prompt"), s.Given("tools")
		return errors.Join(o.check()...)
	})
	if _, err := s.Parse(args, getenv, out, false); err != nil {
		return nil, err
	}
	o.fill()
	return o, nil
}

func (o *options) check() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !o.embedded() && (o.listen != "" || o.store != "" || o.syncAlways) {
		bad("--nats: --listen, --store and --sync-always are of the runner's own server, which --nats replaces")
	}
	if o.promptGiven && strings.TrimSpace(o.prompt) == "" {
		bad("--prompt: is empty")
	}
	if !o.promptGiven && (o.session != "" || o.json) {
		bad("--session and --json go with --prompt")
	}
	if o.session != "" {
		if err := schemas.CheckSession(o.session); err != nil {
			bad("--session: %w", err)
		}
	}
	if o.id != "" {
		if err := schemas.CheckToken("runner id", o.id); err != nil {
			bad("--id: %w", err)
		}
	}
	if o.partitions < 1 || o.partitions > 1024 {
		bad("--partitions: %d is not 1 to 1024", o.partitions)
	}
	if !slices.Contains([]int{1, 3, 5}, o.replicas) {
		bad("--replicas: %d is not 1, 3 or 5", o.replicas)
	}
	if _, err := schemas.NewSubjects(o.prefix); err != nil {
		bad("--prefix: %w", err)
	}
	if _, err := os.Stat(o.creds); o.creds != "" && err != nil {
		bad("--creds: %w", err)
	}
	levels := []string{"off", "minimal", "low", "medium", "high", "xhigh"}
	if !slices.Contains(levels, o.thinking) {
		bad("--thinking: %q is not one of %s", o.thinking, strings.Join(levels, ", "))
	}
	if !slices.Contains([]string{"", "debug", "info", "warn", "error"}, o.logLevel) {
		bad("--log-level: %q is not debug, info, warn or error", o.logLevel)
	}
	if err := toolserve.CheckNames(o.tools); err != nil {
		errs = append(errs, err)
	}
	if info, err := os.Stat(o.root); err != nil || !info.IsDir() {
		bad("--root: %q is not a directory", o.root)
	}
	if o.concurrency < 1 {
		bad("--concurrency: must be at least 1")
	}
	errs = append(errs, o.checkAddresses()...)
	return append(errs, o.checkModel()...)
}

func (o *options) checkAddresses() (errs []error) {
	for _, a := range []struct{ flag, value string }{{"--listen", o.listen}, {"--http", o.http}} {
		if a.value == "" || a.value == "off" && a.flag == "--http" {
			continue
		}
		_, port, err := net.SplitHostPort(a.value)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %q is not host:port", a.flag, a.value))
		}
	}
	if u, err := url.Parse(o.otlp); o.otlp != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		errs = append(errs, fmt.Errorf("--otlp: %q is not a URL such as http://127.0.0.1:4318", o.otlp))
	}
	return errs
}

func (o *options) checkModel() (errs []error) {
	switch o.model {
	case "", modelRehearsal:
	case modelScripted:
		if o.script == "" {
			errs = append(errs, errors.New("--model scripted: needs --script FILE"))
		}
	default:
		errs = append(errs, fmt.Errorf("--model: no model %q, there are %s and %s", o.model, modelRehearsal, modelScripted))
	}
	if o.script != "" && o.model != modelScripted {
		errs = append(errs, errors.New("--script: goes with --model scripted"))
	}
	if o.script == "" {
		return errs
	}
	var err error
	if o.played, err = scripted.Load(o.script); err != nil {
		errs = append(errs, fmt.Errorf("--script: %w", err))
	}
	return errs
}

// fill puts in the defaults that depend on other settings.
func (o *options) fill() {
	set := func(p *string, serving, once string) {
		if *p == "" && o.oneShot() {
			*p = once
		} else if *p == "" {
			*p = serving
		}
	}
	set(&o.listen, "127.0.0.1:4222", "127.0.0.1:0")
	set(&o.store, "loopbus-data", "")
	set(&o.http, "127.0.0.1:8080", "off")
	set(&o.logLevel, "info", "warn")
	if o.id == "" {
		o.id = "r-" + strings.ToLower(rand.Text()[:10])
	}
	if o.session == "" {
		o.session = "s-" + strings.ToLower(rand.Text()[:10])
	}
	if !o.embedded() && !o.toolsGiven {
		o.tools = nil
	}
	if o.updateInterval == 0 {
		o.updateInterval = -1 // each as it comes
	}
}

func newLogger(o *options, w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(o.logLevel)) // checked
	h := &slog.HandlerOptions{Level: level}
	if o.logJSON {
		return slog.New(slog.NewJSONHandler(w, h))
	}
	return slog.New(slog.NewTextHandler(w, h))
}
