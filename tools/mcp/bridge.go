package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

const (
	defaultStartTimeout = 30 * time.Second
	defaultMaxTools     = 256
	defaultWriteTimeout = 5 * time.Second
	firstBackoff        = 500 * time.Millisecond
	lastBackoff         = 30 * time.Second
	keepAlive           = 30 * time.Second

	// listPause is the shortest time between two requests for the list of tools: each list starts a new worker.
	listPause = time.Second

	// stable is how long a session has to last so that the next failure counts as the first one.
	stable = time.Minute
)

// BridgeOptions configures [NewBridge].
type BridgeOptions struct {
	Server ServerConfig
	// Prefix is the prefix of the tools' names; see [Prefixes].
	Prefix string
	// Environ is the environment, as of os.Environ, of which a process gets a few harmless variables; what is
	// configured for it comes on top.
	Environ []string
	// Version is the client version that the server receives.
	Version string
	// StartTimeout limits the time from connecting to a server until it has listed its tools, default 30 s.
	StartTimeout time.Duration
	// FirstBackoff is the wait after the first failure, default 500 ms; it doubles up to half a minute.
	FirstBackoff time.Duration
	// WriteTimeout is how long a server may take for what needs no work, default 5 s: a process to read a message
	// before it is ended, a server by HTTP to say why it refuses a request, and to begin its stream of notifications.
	WriteTimeout time.Duration
	// KeepAlive is how often a server is pinged, default 30 s. One that leaves three pings in a row without an answer for
	// half as long is lost, unless it may be at work on a call that has a time limit and was sent before.
	KeepAlive time.Duration
	// MaxTools is how many tools are taken, default 256; the rest is left out, in the server's order. Of a server that
	// changes its list, the bridge offers at most four times as many names: each gets a queue, which outlives its tool.
	MaxTools int
	// MaxImageBytes is the largest base64 size of an image that is not scaled down, default and at most 4.5 MiB.
	MaxImageBytes int
	// Offer is called with the tools after each connect and whenever they have changed. Calls are not concurrent.
	Offer func([]tools.Tool)
	// Logger records servers that connect, disconnect or change their tools; nil discards. Calls, results and secrets
	// are not logged.
	Logger *slog.Logger
}

// A Bridge provides the tools of an MCP server as loopbus tools. Create one with [NewBridge]; it can be run once.
type Bridge struct {
	o      BridgeOptions
	secret redactor
	log    *slog.Logger

	progress progress
	listed   chan struct{} // has a token when the list of tools has changed
	calls    atomic.Uint64 // numbers progress tokens
	looking  picture.Turns // at looking at the images of a result of this server
	unseen   atomic.Int64  // bytes of results whose images are not looked at yet
	turns    picture.Turns // at decoding an image

	mu        sync.Mutex
	session   *session          // nil while not connected
	trouble   error             // why there is no session
	revisions map[string]string // of the tools in the server's latest list, by the server's names

	offered map[string]bool // all names that were ever offered; only list uses it
}

// Reasons why there is no session.
var (
	errStarting = errors.New("it has not started yet")
	errEnding   = errors.New("it is being stopped")
	errClosed   = errors.New("it has ended, or closed the connection")
	errBroken   = errors.New("the connection to it was lost")
	errSilent   = errors.New("it does not answer")
	errTwice    = errors.New("it is listed twice")
	errLongName = errors.New("its name is too long")

	errManyNames = errors.New("the server has changed the names of its tools too often: restart the worker to take more")
)

// NewBridge validates the options. It starts nothing.
func NewBridge(o BridgeOptions) (*Bridge, error) {
	o.StartTimeout = cmp.Or(o.StartTimeout, defaultStartTimeout)
	o.FirstBackoff = cmp.Or(o.FirstBackoff, firstBackoff)
	o.MaxTools = cmp.Or(o.MaxTools, defaultMaxTools)
	o.KeepAlive = cmp.Or(o.KeepAlive, keepAlive)
	o.WriteTimeout = cmp.Or(o.WriteTimeout, defaultWriteTimeout)
	o.MaxImageBytes = min(cmp.Or(o.MaxImageBytes, picture.MaxBase64), picture.MaxBase64)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Offer == nil {
		o.Offer = func([]tools.Tool) {}
	}
	secret := newRedactor(append(urlSecrets(o.Server.URL), o.Server.secrets...))
	err := o.Server.check()
	if _, own := o.Server.Env["PATH"]; err == nil && o.Server.Command != "" && !own {
		_, err = exec.LookPath(o.Server.Command)
	}
	if err != nil {
		return nil, fmt.Errorf("MCP server %q: %w", o.Server.Name, secret.err(err))
	}
	return &Bridge{
		o: o, secret: secret, log: o.Logger.With("mcp", o.Server.Name), trouble: errStarting,
		looking: picture.NewTurns(), turns: picture.Shared(), listed: make(chan struct{}, 1), offered: map[string]bool{},
	}, nil
}

// Run maintains a session with the server until ctx ends, then closes it. When Run returns, the server's process has
// ended.
func (b *Bridge) Run(ctx context.Context) {
	for wait := b.o.FirstBackoff; ; {
		begun := time.Now()
		err := b.secret.err(b.serve(ctx))
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > stable {
			wait = b.o.FirstBackoff
		}
		b.log.Warn("MCP server lost, trying again", "err", err, "in", wait.String())
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, lastBackoff)
	}
}

// serve connects once, serves the session until it ends, and returns why it has ended.
func (b *Bridge) serve(ctx context.Context) (err error) {
	defer func() { b.set(nil, b.secret.err(err)) }()
	alive := new(pulse)
	said := &unasked{progress: &b.progress, heard: alive.heard}
	client := sdk.NewClient(&sdk.Implementation{Name: "loopbus", Version: cmp.Or(b.o.Version, "dev")}, &sdk.ClientOptions{
		Capabilities: &sdk.ClientCapabilities{},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			said.changed.Store(false)
			signal(b.listed)
		},
	})
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // the server is told when ctx has ended
	defer end()
	link := b.link(life, end, said.sift)
	defer link.end()
	start, cancel := context.WithTimeout(ctx, b.o.StartTimeout)
	defer cancel()
	started := context.AfterFunc(start, end)
	way := &kept{Transport: link.transport, life: life}
	connected, err := client.Connect(start, way, nil)
	if err != nil {
		way.close()
		return fmt.Errorf("connect: %w%s", err, link.lastWords())
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = connected.Wait() // the errors of calls say better why it has ended
	}()
	defer func() {
		b.set(nil, errEnding)
		if errors.Is(err, errSilent) {
			end()
		}
		defer time.AfterFunc(terminateWait, end).Stop() // the calls in flight
		_ = connected.Close()                           // a process that does not end in time is killed
		<-over
	}()
	list, err := b.list(start, connected)
	if err != nil {
		return fmt.Errorf("%w%s", err, link.lastWords())
	}
	if !started() {
		return fmt.Errorf("start: %w", start.Err())
	}
	cancel()
	s := &session{connected, alive, make(chan error, 1)}
	b.set(s, nil)
	b.o.Offer(list) // after set: a client may call a tool as soon as it is offered
	b.log.Info("MCP server connected")
	if err := b.attend(ctx, s, over); err != nil {
		return fmt.Errorf("%w%s", err, link.lastWords())
	}
	return nil
}

// attend waits until a session ends, and requests the list of tools whenever it has changed. It returns why the session
// has ended; nil if ctx has.
func (b *Bridge) attend(ctx context.Context, s *session, over <-chan struct{}) error {
	pinging, stop := context.WithCancel(ctx)
	var pings sync.WaitGroup
	pings.Go(func() { s.keepAlive(pinging, b.o.KeepAlive, b.o.Server.URL == "") })
	defer pings.Wait()
	defer stop()
	var listed <-chan struct{} // nil for listPause after each list
	pause := time.NewTimer(listPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-over:
			return errClosed
		case err := <-s.broken:
			return err
		case <-pause.C:
			listed = b.listed
			continue
		case <-listed:
			listed = nil
		}
		ask, cancel := context.WithTimeout(ctx, b.o.StartTimeout)
		list, err := b.list(ask, s.ClientSession)
		cancel()
		if err == nil {
			b.o.Offer(list)
		} else if ctx.Err() == nil {
			b.log.Warn("changed list of tools not read, the old one stays", "err", b.secret.err(err))
		}
		pause.Reset(listPause)
	}
}

// signal puts a token into c unless c has one.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
