package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
)

// options are the toolworker's settings.
type options struct {
	nats, creds, prefix, id string
	inboxPrefix             string
	workspace               string
	tools                   []string
	root                    string
	env                     []string
	concurrency             int
	stopTimeout             time.Duration
	logLevel                string
	level                   slog.Level
	mcp                     mcpOptions
	sandbox                 sandboxOptions
}

func define(o *options) *config.Set {
	s := config.New("toolworker", "toolworker executes the tool calls of agents on a message bus.")
	s.String(&o.nats, "nats", "nats://127.0.0.1:4222", "URL of the NATS server")
	s.String(&o.creds, "creds", "", "NATS credentials file")
	s.String(&o.prefix, "prefix", schemas.DefaultPrefix, "first token of every subject")
	s.String(&o.inboxPrefix, "inbox-prefix", "", "first tokens of the subjects that replies come to, such as _INBOX_worker where each user has one of its own (default _INBOX)")
	s.String(&o.id, "id", "", "id of this worker, used by no other (default random)")
	s.List(&o.tools, "tools", strings.Join(toolserve.Names(), ","), "built-in tools to serve")
	s.String(&o.root, "root", ".", "directory the tools work in; paths outside it are refused")
	s.String(&o.workspace, "workspace", "", "workspace whose sessions the tools are for, and no others; without it, sessions of none")
	s.List(&o.env, "env", "", "further variables that commands may see; a final * stands for any ending")
	s.Int(&o.concurrency, "concurrency", 8, "calls of each tool at once")
	s.Duration(&o.stopTimeout, "stop-timeout", 10*time.Second, "time running calls get when the worker stops")
	o.sandbox.define(s)
	o.mcp.define(s)
	s.String(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	return s
}

// parse reads and checks the settings; nothing has been started when it fails.
func parse(args []string, getenv func(string) string, out io.Writer) (*options, error) {
	o := new(options)
	s := define(o)
	s.Check(o.check)
	s.Check(func() error { return o.mcp.check(getenv) })
	s.Check(o.sandbox.check)
	if _, err := s.Parse(args, getenv, out, false); err != nil {
		return nil, err
	}
	if o.mcp.serves() && !s.Given("tools") {
		o.tools = nil // what is offered is what others serve
	}
	if o.id == "" {
		o.id = "w-" + strings.ToLower(rand.Text()[:10])
	}
	return o, nil
}

func (o *options) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.nats == "" {
		bad("--nats: is empty")
	}
	if _, err := schemas.NewSubjects(o.prefix); err != nil {
		bad("--prefix: %w", err)
	}
	if o.id != "" {
		if err := schemas.CheckToken("worker id", o.id); err != nil {
			bad("--id: %w", err)
		}
	}
	if o.workspace != "" {
		if err := schemas.CheckToken("workspace", o.workspace); err != nil {
			bad("--workspace: %w", err)
		}
	}
	if len(o.tools) == 0 && !o.mcp.serves() && len(o.mcp.servers) == 0 && o.mcp.file == "" {
		bad("--tools: none named, there are %s", strings.Join(toolserve.Names(), ", "))
	}
	for i, name := range o.tools {
		if slices.Contains(o.tools[:i], name) {
			bad("--tools: %q is named twice", name)
		}
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
	if o.stopTimeout <= 0 {
		bad("--stop-timeout: must be more than nothing")
	}
	if err := o.level.UnmarshalText([]byte(o.logLevel)); err != nil {
		bad("--log-level: %q is not debug, info, warn or error", o.logLevel)
	}
	return errors.Join(errs...)
}
