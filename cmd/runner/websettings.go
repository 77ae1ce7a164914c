package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/web"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// bridgeNames are what --bridge may name.
var bridgeNames = []string{}

// webSettings are those of the console and the bridges, which are on the port of --http.
type webSettings struct {
	Console   string   `default:"auto" placeholder:"MODE" help:"Serve the console where it is safe, or off."`
	Bridges   []string `name:"bridge" placeholder:"NAME" help:"Serve these protocols beside it: ${bridges}."`
	Token     string   `name:"http-token" secret:"" help:"Ask for this token; rather give LOOPBUS_HTTP_TOKEN."`
	Names     []string `name:"http-name" placeholder:"HOST" help:"Answer to these names, too, as behind a proxy."`
	JWTCookie string   `name:"http-jwt-cookie" placeholder:"NAME" help:"Take users' JWTs from this cookie of a proxy."`
}

// Check looks at names and the token.
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
		if !slices.Contains(bridgeNames, name) {
			errs = append(errs, fmt.Errorf("--bridge: %q is not one of %s", name, strings.Join(bridgeNames, ", ")))
		}
	}
	return errs
}
