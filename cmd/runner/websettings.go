package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/bridge/agui"
	"github.com/loopbus/loopbus/bus/bridge/gateway"
	ssebridge "github.com/loopbus/loopbus/bus/bridge/sse"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/web"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// bridge creates the HTTP handlers of a protocol on a client, and a function that stops them.
type bridge func(s *service, c *client.Client, site func() *web.Site) (mounts []web.Mount, end func())

// bridges are the protocols that --bridge accepts.
var bridges = map[string]bridge{
	"sse": func(s *service, c *client.Client, _ func() *web.Site) ([]web.Mount, func()) {
		return []web.Mount{{Pattern: ssebridge.Pattern, Handler: ssebridge.New(c, s.views)}}, func() {}
	},
	"ag-ui": func(s *service, c *client.Client, _ func() *web.Site) ([]web.Mount, func()) {
		b := agui.New(c, agui.Options{Load: s.State, Views: s.views, Logger: s.log})
		return []web.Mount{{Pattern: agui.Pattern, Handler: b},
			{Pattern: agui.AbortPattern, Handler: http.HandlerFunc(b.Abort)}}, b.Close
	},
	"gateway": func(s *service, c *client.Client, site func() *web.Site) ([]web.Mount, func()) {
		b := gateway.New(c, gateway.Options{Version: version, Logger: s.log, Origins: s.o.Web.Names, Load: s.State,
			Views:   s.views,
			Allowed: func(r *http.Request, token string) bool { return site().Allowed(r, token) }})
		return []web.Mount{{Pattern: gateway.Pattern, Handler: b, OwnToken: true}}, b.Close
	},
}

func bridgeNames() []string { return slices.Sorted(maps.Keys(bridges)) }

// webSettings configure the console and the bridges, which share the port of --http.
type webSettings struct {
	Console   string   `default:"auto" placeholder:"MODE" help:"Serve the web console where it is safe: auto or off."`
	Bridges   []string `name:"bridge" placeholder:"NAME" help:"Serve these protocols besides: ${bridges}."`
	Token     string   `name:"http-token" secret:"" help:"Require this token of clients; prefer LOOPBUS_HTTP_TOKEN."`
	Names     []string `name:"http-name" placeholder:"HOST" help:"Accept these hosts too: HOST or HOST:PORT of a proxy."`
	JWTCookie string   `name:"http-jwt-cookie" placeholder:"NAME" help:"Take users' JWTs from this cookie of a proxy."`

	picked bool // no address was given: --http has its default
}

// Check validates names and the token.
func (o *webSettings) Check(*cli.Call) (errs []error) {
	if o.Console != "auto" && o.Console != "off" {
		errs = append(errs, fmt.Errorf("--console: %q is not auto or off", o.Console))
	}
	if o.Token != "" {
		if err := web.CheckToken(o.Token); err != nil {
			errs = append(errs, fmt.Errorf("--http-token: %w", err))
		}
	}
	for _, name := range o.Names {
		if err := web.CheckName(name); err != nil {
			errs = append(errs, fmt.Errorf("--http-name: %w", err))
		}
	}
	for _, name := range o.Bridges {
		if bridges[name] == nil {
			errs = append(errs, fmt.Errorf("--bridge: %q is not one of %s", name, strings.Join(bridgeNames(), ", ")))
		}
	}
	return errs
}
