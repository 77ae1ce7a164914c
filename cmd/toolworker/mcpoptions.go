package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/mcp"
)

// mcpOptions are the settings of the Model Context Protocol, as a client and as a server.
type mcpOptions struct {
	Servers   cli.Lines `name:"mcp-server" brief:"" help:"Serve the tools of this MCP server: NAME=COMMAND or NAME=URL."`
	File      string    `name:"mcp-config" placeholder:"FILE" help:"Serve the tools of the MCP servers in this file."`
	Stdio     bool      `name:"mcp" brief:"" help:"Offer the announced tools over MCP on stdin and stdout."`
	HTTP      string    `name:"mcp-http" placeholder:"ADDR" brief:"" help:"Offer the announced tools over MCP at ADDR."`
	Token     string    `name:"mcp-token" secret:"" help:"Require this token over HTTP; prefer LOOPBUS_MCP_TOKEN."`
	TokenFile string    `name:"mcp-token-file" placeholder:"FILE" help:"Require the token in this file over HTTP."`
	Only      []string  `name:"mcp-tools" help:"Offer MCP clients these tools (default all)."`
	Scopes    []string  `name:"mcp-scopes" help:"Grant MCP clients these scopes."`

	configs []mcp.ServerConfig // parsed from Servers and File
}

// serves reports whether the toolworker is an MCP server.
func (o *mcpOptions) serves() bool { return o.Stdio || o.HTTP != "" }

// readable lists the MCP servers whose environment a bash command can read.
func (o *options) readable() (names []string) {
	if bash.Sandbox(o.Sandbox.Sandbox) != bash.SandboxNone || !slices.Contains(o.Tools.Tools, "bash") {
		return nil
	}
	for _, c := range o.MCP.configs {
		if c.Command != "" && len(c.Env) > 0 {
			names = append(names, c.Name)
		}
	}
	return names
}

// Check parses the servers and the token, and validates the address.
func (o *mcpOptions) Check(c *cli.Call) []error {
	errs := []error{o.readServers(c.IO.Getenv), o.readToken()}
	for _, name := range o.Only {
		if err := schemas.CheckToken("tool", name); err != nil {
			errs = append(errs, fmt.Errorf("--mcp-tools: %w", err))
		}
	}
	if o.Stdio && o.HTTP != "" {
		errs = append(errs, errors.New("--mcp, --mcp-http: give only one of them"))
	}
	if o.HTTP != "" {
		if err := o.checkAddress(); err != nil {
			errs = append(errs, fmt.Errorf("--mcp-http: %w", err))
		}
	}
	return errs
}

func (o *mcpOptions) readServers(getenv func(string) string) error {
	var errs []error
	for _, text := range o.Servers {
		c, err := mcp.ParseServer(text, getenv)
		if err != nil {
			errs = append(errs, fmt.Errorf("--mcp-server: %w", err))
			continue
		}
		o.configs = append(o.configs, c)
	}
	if o.File != "" {
		data, err := os.ReadFile(o.File)
		var list []mcp.ServerConfig
		if err == nil {
			list, err = mcp.ParseConfig(data, getenv)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--mcp-config: %s: %w", o.File, err))
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
	if o.TokenFile == "" {
		return nil
	}
	if o.Token != "" {
		return errors.New("--mcp-token, --mcp-token-file: give only one of them")
	}
	data, err := os.ReadFile(o.TokenFile)
	if err != nil {
		return fmt.Errorf("--mcp-token-file: %w", err)
	}
	if o.Token = strings.TrimSpace(string(data)); o.Token == "" {
		return fmt.Errorf("--mcp-token-file: %s is empty", o.TokenFile)
	}
	return nil
}

// checkAddress requires a token on an address that other machines can reach: every client may call bash.
func (o *mcpOptions) checkAddress() error {
	host, _, err := net.SplitHostPort(o.HTTP)
	if err != nil {
		return err
	}
	ip := net.ParseIP(host)
	if o.Token == "" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not a loopback address: without a token, anyone who can reach it may call every tool; set "+
			"one with --mcp-token-file", o.HTTP)
	}
	return nil
}
