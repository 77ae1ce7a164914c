package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/natsws"
	"github.com/loopbus/loopbus/bus/web"
	"github.com/loopbus/loopbus/console"
	"github.com/loopbus/loopbus/tools/bash"
)

// site is what the port of --http serves besides health and metrics. A nil site serves nothing.
type site struct {
	site  *web.Site
	nats  *natsws.Bridge
	ends  []func() // stop the bridges and close their client
	token string   // token for the link; "" if the user set it, or none is needed
	page  bool     // the console is served
}

func (d *site) close() {
	if d != nil {
		d.nats.Close()
		for _, end := range slices.Backward(d.ends) {
			end()
		}
		d.ends = nil
	}
}

// openSite creates the console and the bridges for the address that the port listens at. It returns nil if neither is
// to be served, or if the console would be open to others without a token.
func (s *service) openSite(ctx context.Context, at net.Addr) (*site, error) {
	tcp, ok := at.(*net.TCPAddr)
	loopback := ok && tcp.IP.IsLoopback()
	if s.o.Web.Console == "off" && len(s.o.Web.Bridges) == 0 {
		return nil, nil
	}
	up := s.o.Server.Upstream()
	if s.server != nil {
		up = natsws.Upstream{InProcess: s.server}
	}
	d := &site{nats: natsws.New(natsws.Options{Upstream: up, Origins: s.o.Web.Names, JWTCookie: s.o.Web.JWTCookie,
		Logger: s.log})}
	token := s.o.Web.Token
	if token == "" && loopback {
		var err error
		if token, err = s.linkToken(); err != nil {
			return nil, err
		}
		d.token = token
	}
	if token == "" {
		if reason := s.exposed(ctx, d.nats, up); reason != "" {
			if len(s.o.Web.Bridges) > 0 {
				return nil, fmt.Errorf("--bridge: other machines can reach %s: set --http-token, or listen on loopback", at)
			}
			s.log.Info("console not served: address is reachable from other machines", "address", at.String(), "reason", reason,
				"remedy", "--http-token, or --http on loopback behind a proxy")
			return nil, nil
		}
	}
	o := web.Options{Token: token, Loopback: loopback, Names: s.o.Web.Names, Logger: s.log}
	if name, err := os.Hostname(); err == nil && !loopback && web.CheckName(name) == nil {
		o.Names = append(slices.Clip(o.Names), name) // the link contains it
	}
	if s.o.Web.Console != "off" {
		o.Files, d.page = console.Files(), true
		o.Mounts = append(o.Mounts, web.Mount{Pattern: "/nats", Handler: d.nats},
			web.Mount{Pattern: "/config.json", Handler: s.consoleConfig()})
	}
	var err error
	if len(s.o.Web.Bridges) > 0 {
		c, err := s.bridgeClient(ctx)
		if err != nil {
			return nil, err
		}
		d.ends = append(d.ends, c.Close)
		for _, name := range s.o.Web.Bridges {
			mounts, end := bridges[name](s, c, func() *web.Site { return d.site })
			o.Mounts, d.ends = append(o.Mounts, mounts...), append(d.ends, end)
		}
	}
	if d.site, err = web.New(o); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

// bridgeClient connects a client for the bridges, with the runner's credentials and its own connection.
func (s *service) bridgeClient(ctx context.Context) (*client.Client, error) {
	const name = "loopbus bridges"
	if s.server == nil {
		return s.o.Server.Client(ctx, name, s.log)
	}
	return client.Connect(s.server.ClientURL(), client.Options{Name: name, Prefix: s.o.Server.Prefix, Logger: s.log})
}

// exposed returns why a port that other machines can reach must not be served without a token; "" if it may.
func (s *service) exposed(ctx context.Context, b *natsws.Bridge, up natsws.Upstream) string {
	if up.CertFile != "" {
		return "every visitor would use the runner's TLS certificate"
	}
	asks, err := b.AuthRequired(ctx)
	switch {
	case err != nil:
		return err.Error()
	case !asks:
		return "the NATS server requires no credentials, and no token is set"
	case len(s.o.Web.Bridges) > 0:
		return "bridges use the runner's credentials"
	}
	return ""
}

// tokenFile stores the token of the console's link in the store, so that links stay valid across restarts.
const tokenFile = "http-token"

// linkToken returns the token that is part of the printed link.
func (s *service) linkToken() (string, error) {
	if s.server == nil || s.o.Server.Store == "" {
		return rand.Text(), nil
	}
	path := filepath.Join(s.o.Server.Store, tokenFile)
	kept, err := os.ReadFile(path)
	token := strings.TrimSpace(string(kept))
	if err == nil && web.CheckToken(token) == nil && ours(path) {
		return token, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("console token: %w", err)
	}
	token = rand.Text()
	if err := replace(path, token+"\n"); err != nil {
		return "", fmt.Errorf("console token: %w", err)
	}
	return token, nil
}

// ours reports whether a file is this user's, and nobody else can read it. Another one was not written by the runner:
// someone who knows its content may have put it there before the store existed.
func ours(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && bash.OwnedByUser(info) &&
		(runtime.GOOS == "windows" || info.Mode().Perm()&0o077 == 0)
}

// replace writes a new file that only this user can read, removing what had its name.
func replace(path, content string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Close())
}

// link returns the address to open in a browser.
func (d *site) link(at net.Addr) string {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return at.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host, err = os.Hostname()
		if err != nil {
			host = "localhost"
		}
	}
	link := "http://" + net.JoinHostPort(host, port) + "/"
	if d.token != "" {
		link += "?token=" + d.token
	}
	return link
}

// consoleConfig serves what the console cannot learn over NATS.
func (s *service) consoleConfig() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct {
			Prefix  string   `json:"prefix"`
			Runner  string   `json:"runner"`
			Version string   `json:"version"`
			Bridges []string `json:"bridges,omitempty"`
		}{s.Conn.Subjects().Prefix(), s.o.Server.ID, version, s.o.Web.Bridges})
	})
}
