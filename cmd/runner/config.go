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

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// options are the runner's settings.
type options struct {
	nats, listen, store, prefix, creds, inboxPrefix string
	syncAlways                                      bool
	syncInterval                                    time.Duration
	syncGiven                                       bool // the interval
	partitions, replicas                            int
	partitionsGiven                                 bool

	id, systemPrompt                      string
	models                                modelSettings
	idleTimeout, abortGrace               time.Duration
	limits                                limits
	policy                                policy
	updateInterval, stopTimeout, takeover time.Duration
	unservedAfter                         time.Duration

	tools       []string
	toolsGiven  bool
	root        string
	concurrency int
	workspace   string
	window      int

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
	s.String(&o.nats, "nats", "", "URL of the NATS server, or URLs of a cluster's; without it the runner starts one of its own")
	s.String(&o.listen, "listen", "", "address of the runner's own server (default 127.0.0.1:4222, with --prompt a free port)")
	s.String(&o.store, "store", "", "directory of the runner's own server (default loopbus-data, with --prompt a temporary one)")
	s.Bool(&o.syncAlways, "sync-always", false, "own server: fsync before every acknowledgement")
	s.Duration(&o.syncInterval, "sync-interval", 2*time.Minute, "own server: fsync as often, where it is not before every acknowledgement")
	s.String(&o.prefix, "prefix", schemas.DefaultPrefix, "first token of every subject")
	s.String(&o.creds, "creds", "", "NATS credentials file")
	s.String(&o.inboxPrefix, "inbox-prefix", "", "first tokens of the subjects that replies come to, such as _INBOX_runner where each user has one of its own (default _INBOX)")
	s.Int(&o.partitions, "partitions", 0, "partitions of the inbox, fixed when the streams are made (default as they are, 64 for new streams)")
	s.Int(&o.replicas, "replicas", 0, "replicas of the streams: 1, 3 or 5, which need as many servers (default as they are, 1 for new streams)")
	s.String(&o.id, "id", "", "id of this runner, used by no other (default random)")
	o.models.define(s)
	s.String(&o.systemPrompt, "system-prompt", "", "system prompt of sessions that set none")
	o.limits.define(s)
	o.policy.define(s)
	s.Duration(&o.idleTimeout, "idle-timeout", 2*time.Minute, "longest a model may say nothing, 0 for no limit")
	s.Duration(&o.abortGrace, "abort-grace", 10*time.Second, "time tools get to stop when a run is aborted")
	s.Duration(&o.unservedAfter, "unserved-after", 30*time.Second, "how long a tool call waits while nobody announces its tool, 0 for ever")
	s.Duration(&o.updateInterval, "update-interval", 25*time.Millisecond, "deltas are joined to one message in this time, 0 for each as it comes")
	s.Duration(&o.stopTimeout, "stop-timeout", 10*time.Second, "time running work gets when the runner stops")
	s.Duration(&o.takeover, "takeover", bus.DefaultTakeover, "longest the sessions of a runner that is killed wait for another; the same for all runners")
	s.List(&o.tools, "tools", strings.Join(toolserve.Names(), ","), "built-in tools to serve (with --nats none unless given)")
	s.String(&o.root, "root", ".", "directory the tools work in; paths outside it are refused")
	s.Int(&o.concurrency, "concurrency", 8, "calls of each tool at once")
	s.String(&o.workspace, "workspace", "", "workspace of sessions that set none, and of the runner's own tools")
	s.Int(&o.window, "max-calls-in-queue", driver.DefaultCallsInQueue, "calls of one tool that a session has with its workers at once, 0 for no limit")
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
		o.promptGiven, o.toolsGiven, o.syncGiven = s.Given("prompt"), s.Given("tools"), s.Given("sync-interval")
		o.partitionsGiven = s.Given("partitions")
		return errors.Join(o.check(getenv)...)
	})
	if _, err := s.Parse(args, getenv, out, false); err != nil {
		return nil, err
	}
	o.fill()
	return o, nil
}

func (o *options) check(getenv func(string) string) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !o.embedded() && (o.listen != "" || o.store != "" || o.syncAlways || o.syncGiven) {
		bad("--nats: --listen, --store, --sync-always and --sync-interval are of the runner's own server, which --nats replaces")
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
	if o.workspace != "" {
		if err := schemas.CheckToken("workspace", o.workspace); err != nil {
			bad("--workspace: %w", err)
		}
	}
	if o.partitionsGiven && o.partitions < 1 || o.partitions > 1024 {
		bad("--partitions: %d is not 1 to 1024", o.partitions)
	}
	if !slices.Contains([]int{0, 1, 3, 5}, o.replicas) {
		bad("--replicas: %d is not 1, 3 or 5", o.replicas)
	} else if o.embedded() && o.replicas > 1 {
		bad("--replicas: %d need a cluster of NATS servers, named by --nats URL,URL,URL; the runner's own server stands alone", o.replicas)
	}
	if o.syncInterval < time.Second {
		bad("--sync-interval: %s is less than 1s; to sync before every acknowledgement give --sync-always", o.syncInterval)
	}
	if _, err := schemas.NewSubjects(o.prefix); err != nil {
		bad("--prefix: %w", err)
	}
	if _, err := os.Stat(o.creds); o.creds != "" && err != nil {
		bad("--creds: %w", err)
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
	if err := bus.CheckTakeover(o.takeover); err != nil {
		bad("--takeover: %w", err)
	}
	if o.concurrency < 1 {
		bad("--concurrency: must be at least 1")
	}
	errs = append(errs, o.limits.check()...)
	errs = append(errs, o.policy.check()...)
	errs = append(errs, o.checkAddresses()...)
	return append(errs, o.models.resolve(getenv)...)
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
	if o.window == 0 {
		o.window = -1 // no limit
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
