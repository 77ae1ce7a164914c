package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// startTimeout bounds how long a server may take to accept connections once its store has been recovered.
const startTimeout = 10 * time.Second

// defaultSyncInterval is the server's own: how much it may lose when the machine loses power.
const defaultSyncInterval = 2 * time.Minute

// ServerOptions configures [StartServer]. Only StoreDir is needed.
type ServerOptions struct {
	// Listen is the TCP address, host:port. Empty means a free port of 127.0.0.1, as does port 0 or -1 of another host;
	// an empty host means 127.0.0.1 too. Any other interface has to be named, 0.0.0.0 for all.
	Listen string
	// InProcessOnly leaves out the TCP listener: only connections of this process reach the server.
	InProcessOnly bool
	// StoreDir holds the streams. It is created if missing, and used by one server at a time.
	StoreDir string
	// SyncAlways has every message synced to disk before it is acknowledged. Otherwise the disk is synced every
	// SyncInterval (default two minutes); see [Server.Durability].
	SyncAlways   bool
	SyncInterval time.Duration
	// MaxPayload is the largest message in bytes; 0 leaves the server's default, 1 MiB.
	MaxPayload int32
	// Name is the server's name, default "loopbus".
	Name string
	// Logger gets the server's warnings and errors; nil discards them.
	Logger *slog.Logger
}

// Server is a NATS server with JetStream inside this process. It installs no signal handlers and prints nothing.
// Its methods may be called concurrently.
type Server struct {
	nats    *server.Server
	lock    *os.File
	opts    ServerOptions
	stopped sync.Once
}

// StartServer starts a server and returns once it accepts connections and has recovered its streams. The caller has
// to [Server.Shutdown] it. A port in use and a store directory in use are errors that say so.
func StartServer(o ServerOptions) (*Server, error) {
	host, port, err := o.address()
	if err != nil {
		return nil, err
	}
	if o.StoreDir == "" {
		return nil, errors.New("bus: start server: no store directory given")
	}
	if o.Name == "" {
		o.Name = "loopbus"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	lock, err := lockDir(o.StoreDir)
	if err != nil {
		return nil, fmt.Errorf("bus: start server: %w", err)
	}
	s := &Server{lock: lock, opts: o}
	if err := s.start(host, port); err != nil {
		s.Shutdown()
		return nil, err
	}
	if ip := net.ParseIP(host); !o.InProcessOnly && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		o.Logger.Warn("server listens beyond this machine and asks nobody for credentials", "url", s.ClientURL())
	}
	return s, nil
}

func (o ServerOptions) address() (host string, port int, err error) {
	if o.Listen == "" {
		return "127.0.0.1", server.RANDOM_PORT, nil
	}
	host, p, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("bus: start server: listen address %q is not host:port: %w", o.Listen, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < -1 || port > 65535 {
		return "", 0, fmt.Errorf("bus: start server: listen address %q: %q is no port", o.Listen, p)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if port == 0 { // which nats-server takes for its default port
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

func (s *Server) start(host string, port int) error {
	ns, err := server.NewServer(&server.Options{
		ServerName:   s.opts.Name,
		Host:         host,
		Port:         port,
		DontListen:   s.opts.InProcessOnly,
		JetStream:    true,
		StoreDir:     s.opts.StoreDir,
		SyncAlways:   s.opts.SyncAlways,
		SyncInterval: s.opts.SyncInterval,
		MaxPayload:   s.opts.MaxPayload,
		NoSigs:       true,
	})
	if err != nil {
		return fmt.Errorf("bus: start server in %s: %w", s.opts.StoreDir, err)
	}
	s.nats = ns
	log := &serverLog{to: s.opts.Logger, fatal: make(chan string, 1)}
	ns.SetLoggerV2(log, false, false, false)
	ns.Start() // recovers the streams; what is fatal to it has been logged when it returns
	ready := len(log.fatal) == 0 && ns.ReadyForConnections(startTimeout)
	select {
	case reason := <-log.fatal:
		return fmt.Errorf("bus: start server on %s in %s: %s",
			net.JoinHostPort(host, strconv.Itoa(port)), s.opts.StoreDir, reason)
	default:
	}
	if !ready {
		return fmt.Errorf("bus: start server in %s: not ready after %s", s.opts.StoreDir, startTimeout)
	}
	return nil
}

// ClientURL is where clients connect over TCP, "" if the server is in-process only.
func (s *Server) ClientURL() string {
	if s.opts.InProcessOnly {
		return ""
	}
	return s.nats.ClientURL()
}

// InProcess gives connections that need no TCP, for [nats.InProcessServer].
func (s *Server) InProcess() nats.InProcessConnProvider { return s.nats }

// Ready returns nil once the server accepts connections and its JetStream is healthy, or an error after the timeout.
func (s *Server) Ready(timeout time.Duration) error {
	if !s.nats.ReadyForConnections(timeout) {
		return fmt.Errorf("bus: server not ready for connections after %s", timeout)
	}
	if h := s.nats.Healthz(&server.HealthzOptions{}); h.Error != "" {
		return fmt.Errorf("bus: server not healthy: %s", h.Error)
	}
	return nil
}

// Durability says in one sentence what survives a loss of power with the server's settings.
func (s *Server) Durability() string {
	if s.opts.SyncAlways {
		return "every acknowledged message is on disk: it survives a crash of the process and a loss of power, " +
			"as far as the disk keeps what it has synced"
	}
	interval := s.opts.SyncInterval
	if interval == 0 {
		interval = defaultSyncInterval
	}
	return fmt.Sprintf("every acknowledged message survives a crash of the process; a loss of power or a crash of the "+
		"operating system may lose what was acknowledged in the %s before it (sync_always prevents that)", interval)
}

// Shutdown stops the server and returns once its streams are closed and its store directory is free again. It may be
// called more than once.
func (s *Server) Shutdown() {
	s.stopped.Do(func() {
		if s.nats != nil {
			s.nats.Shutdown()
			s.nats.WaitForShutdown()
		}
		s.lock.Close() // releases the lock; the file stays, for removing it would race with the next owner
	})
}
