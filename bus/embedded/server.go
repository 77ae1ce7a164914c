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

// readyPoll is how often a server is asked whether it is healthy.
const readyPoll = 20 * time.Millisecond

// Options configures [Start]. Only StoreDir is needed.
type Options struct {
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
	// Name is the server's name, default "loopbus" for one that stands alone.
	Name string
	// Cluster makes it one of a cluster. It is started, then, as soon as it accepts connections; its streams can be used
	// once most of the servers are up, see [Server.Ready].
	Cluster ClusterOptions
	// Logger gets the server's warnings and errors; nil discards them.
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

// Start starts a server and returns once it accepts connections and has recovered its streams. The caller has
// to [Server.Shutdown] it. A port in use and a store directory in use are errors that say so.
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

// splitAddress reads host:port. An empty host is 127.0.0.1; port 0 is any free one.
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
	if port == 0 { // which nats-server takes for its default port
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
	ns.Start() // recovers the streams; what is fatal to it has been logged when it returns
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

// ClientURL is where clients connect over TCP, "" if the server is in-process only.
func (s *Server) ClientURL() string {
	if s.opts.InProcessOnly {
		return ""
	}
	return s.nats.ClientURL()
}

// InProcessConn makes a connection that needs no TCP; with it a Server is a [nats.InProcessConnProvider].
func (s *Server) InProcessConn() (net.Conn, error) { return s.nats.InProcessConn() }

// Ready returns nil once the server accepts connections and its JetStream is healthy, for one of a cluster: has a
// leader and all that it should have. After the timeout it returns what is missing.
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
		s.lock.Close() // releases the lock; the file stays, for removing it would race with the next owner
	})
}
