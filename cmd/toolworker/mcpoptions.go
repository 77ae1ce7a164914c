package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/tools/mcp"
)

// mcpOptions are the settings about the Model Context Protocol, in both directions.
type mcpOptions struct {
	servers []string
	file    string
	configs []mcp.ServerConfig // what servers and file come to

	stdio     bool
	http      string
	token     string
	tokenFile string
	only      []string
	scopes    []string
}

func (o *mcpOptions) define(s *config.Set) {
	s.Lines(&o.servers, "mcp-server", "MCP server whose tools to serve, name=COMMAND or name=URL; may be given more than once")
	s.String(&o.file, "mcp-config", "", "JSON `file` with MCP servers whose tools to serve")
	s.Bool(&o.stdio, "mcp", false, "be an MCP server over standard input and output that offers the tools announced on the bus")
	s.String(&o.http, "mcp-http", "", "be such a server over streamable HTTP at this address; not loopback only with a token")
	s.String(&o.token, "mcp-token", "", "token that MCP clients have to send over HTTP; better in the environment than as a flag")
	s.String(&o.tokenFile, "mcp-token-file", "", "`file` with that token")
	s.List(&o.only, "mcp-tools", "", "tools to offer to MCP clients (default all)")
	s.List(&o.scopes, "mcp-scopes", "", "scopes that MCP clients have: tools that need others are not offered")
}

// serves reports whether MCP clients are served.
func (o *mcpOptions) serves() bool { return o.stdio || o.http != "" }

// check reads what the settings name, and returns all mistakes.
func (o *mcpOptions) check(getenv func(string) string) error {
	errs := []error{o.readServers(getenv), o.readToken()}
	if o.stdio && o.http != "" {
		errs = append(errs, errors.New("--mcp, --mcp-http: only one of them"))
	}
	if o.http != "" {
		if err := o.checkAddress(); err != nil {
			errs = append(errs, fmt.Errorf("--mcp-http: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (o *mcpOptions) readServers(getenv func(string) string) error {
	var errs []error
	for _, text := range o.servers {
		c, err := mcp.ParseServer(text, getenv)
		if err != nil {
			errs = append(errs, fmt.Errorf("--mcp-server: %w", err))
			continue
		}
		o.configs = append(o.configs, c)
	}
	if o.file != "" {
		data, err := os.ReadFile(o.file)
		var list []mcp.ServerConfig
		if err == nil {
			list, err = mcp.ParseConfig(data, getenv)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--mcp-config: %s: %w", o.file, err))
		}
		o.configs = append(o.configs, list...)
	}
	seen := map[string]bool{}
	for _, c := range o.configs {
		if seen[c.Name] {
			errs = append(errs, fmt.Errorf("MCP server %q is given twice", c.Name))
		}
		seen[c.Name] = true
	}
	return errors.Join(errs...)
}

func (o *mcpOptions) readToken() error {
	if o.tokenFile == "" {
		return nil
	}
	if o.token != "" {
		return errors.New("--mcp-token, --mcp-token-file: only one of them")
	}
	data, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return fmt.Errorf("--mcp-token-file: %w", err)
	}
	if o.token = strings.TrimSpace(string(data)); o.token == "" {
		return fmt.Errorf("--mcp-token-file: %s is empty", o.tokenFile)
	}
	return nil
}

// checkAddress refuses to let anybody in who can reach this machine: a call of bash is theirs to make.
func (o *mcpOptions) checkAddress() error {
	host, _, err := net.SplitHostPort(o.http)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	if o.token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not a loopback address: whoever can reach it could call every tool; set a token with --mcp-token-file", o.http)
	}
	return nil
}
