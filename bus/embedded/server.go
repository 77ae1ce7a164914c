package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout bounds how long a server may take to accept connections once its store has been recovered.
const startTimeout = 10 * time.Second

// readyPoll is the time between two checks of a server's health.
const readyPoll = 20 * time.Millisecond

// Options configures [Start]. Only StoreDir is required.
type Options struct {
	// Listen is the TCP address, host:port. Empty means a free port of 127.0.0.1. An empty host means 127.0.0.1, 0.0.0.0
	// means all interfaces; port 0 or -1 means a free port.
	Listen string
	// InProcessOnly disables the TCP listener: only connections of this process reach the server.
	InProcessOnly bool
	// StoreDir is the directory of the streams. It is created if missing. Only one server can use it at a time.
	StoreDir string
	// SyncAlways syncs every message to disk before it is acknowledged. Otherwise the server syncs every SyncInterval
	// (default two minutes); see [Server.Durability].
	SyncAlways   bool
	SyncInterval time.Duration
	// MaxPayload is the size of the largest message in bytes; 0 means the server's default, 1 MiB.
	MaxPayload int32
	// Name is the server's name. The default is "loopbus"; a member of a cluster has no default.
	Name string
	// Cluster makes the server a member of a cluster. [Start] then returns as soon as the server accepts connections; its
	// streams can be used once most of the servers are up, see [Server.Ready].
	Cluster ClusterOptions
	// Logger receives the server's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Server is a NATS server with JetStream inside this process. It installs no signal handlers and prints nothing.
// Its methods may be called concurrently.
type Server struct {
	nats    *server.Server
	lock    *os.File
	opts    Options
	stopped sync.Once
}

// Start starts a server and returns once it accepts connections and has recovered its streams. The caller must call
// [Server.Shutdown]. It is an error if the port or the store directory is in use.
func Start(o Options) (*Server, error) {
	config, err := o.config()
	if err != nil {
		return nil, fmt.Errorf("embedded: start server: %w", err)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	lock, err := lockDir(o.StoreDir)
	if err != nil {
		return nil, fmt.Errorf("embedded: start server: %w", err)
	}
	s := &Server{lock: lock, opts: o}
	if err := s.start(config); err != nil {
		s.Shutdown()
		return nil, err
	}
	host := config.Host
	if ip := net.ParseIP(host); !o.InProcessOnly && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		o.Logger.Warn("server listens beyond this machine and asks nobody for credentials", "url", s.ClientURL())
	}
	return s, nil
}

// config checks the options and returns those of nats-server.
func (o Options) config() (*server.Options, error) {
	if o.StoreDir == "" {
		return nil, errors.New("no store directory given")
	}
	host, port, err := o.address()
	if err != nil {
		return nil, err
	}
	if o.Name == "" && o.Cluster.enabled() {
		return nil, errors.New("a server of a cluster needs a name of its own")
	}
	config := &server.Options{
		ServerName:   cmp.Or(o.Name, "loopbus"),
		Host:         host,
		Port:         port,
		DontListen:   o.InProcessOnly,
		JetStream:    true,
		StoreDir:     o.StoreDir,
		SyncAlways:   o.SyncAlways,
		SyncInterval: o.SyncInterval,
		MaxPayload:   o.MaxPayload,
		NoSigs:       true,
	}
	return config, o.Cluster.apply(config)
}

func (o Options) address() (host string, port int, err error) {
	if o.Listen == "" {
		return "127.0.0.1", server.RANDOM_PORT, nil
	}
	return splitAddress(o.Listen)
}

// splitAddress parses host:port. An empty host is 127.0.0.1; port 0 is any free port.
func splitAddress(address string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %q is not host:port: %w", address, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < -1 || port > 65535 {
		return "", 0, fmt.Errorf("listen address %q: %q is no port", address, p)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if port == 0 { // nats-server would use its default port
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

func (s *Server) start(config *server.Options) error {
	ns, err := server.NewServer(config)
	if err != nil {
		return fmt.Errorf("embedded: start server in %s: %w", s.opts.StoreDir, err)
	}
	s.nats = ns
	log := &serverLog{to: s.opts.Logger, fatal: make(chan string, 1)}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start() // recovers the streams; fatal errors have been logged when it returns
	ready := len(log.fatal) == 0 && ns.ReadyForConnections(startTimeout)
	select {
	case reason := <-log.fatal:
		return fmt.Errorf("embedded: start server on %s in %s: %s",
			net.JoinHostPort(config.Host, strconv.Itoa(config.Port)), s.opts.StoreDir, reason)
	default:
	}
	if !ready {
		return fmt.Errorf("embedded: start server in %s: not ready after %s", s.opts.StoreDir, startTimeout)
	}
	return nil
}

// ClientURL returns the URL at which clients connect over TCP, "" if the server is in-process only.
func (s *Server) ClientURL() string {
	if s.opts.InProcessOnly {
		return ""
	}
	return s.nats.ClientURL()
}

// InProcessConn returns a connection without TCP. It implements [nats.InProcessConnProvider].
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// Ready waits until the server accepts connections and its JetStream is healthy; in a cluster, until JetStream has a
// leader and this member is up to date. After the timeout it returns an error with what is missing.
func (s *Server) Ready(timeout time.Duration) error {
	end := time.Now().Add(timeout)
	if !s.nats.ReadyForConnections(timeout) {
		return fmt.Errorf("embedded: server not ready for connections after %s", timeout)
	}
	for {
		h := s.nats.Healthz(&server.HealthzOptions{})
		if h.Error == "" {
			return nil
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("embedded: server not healthy after %s: %s", timeout, h.Error)
		}
		time.Sleep(readyPoll)
	}
}

// Shutdown stops the server and returns once its streams are closed and its store directory is free again. It may be
// called more than once.
func (s *Server) Shutdown() {
	s.stopped.Do(func() {
		if s.nats != nil {
			s.nats.Shutdown()
			s.nats.WaitForShutdown()
		}
		s.lock.Close() // releases the lock; the file stays, because removing it would race with the next owner
	})
}
