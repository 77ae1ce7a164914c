package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// Forms of a configuration.
const (
	formAccounts = "accounts" // an account for each user, for a server's configuration
	formUsers    = "users"    // users of one account, for the same
	formClaims   = "claims"   // of a JWT
	formNSC      = "nsc"      // a command of nsc
)

// permissionsCommand is `runner permissions`.
type permissionsCommand struct {
	Config   cli.Config `embed:""`
	Names    []string   `arg:"" optional:"" name:"role" placeholder:"ROLE" help:"The roles of the user."`
	User     string     `group:"server" brief:"" placeholder:"NAME" help:"Name the user, and its inbox _INBOX_NAME."`
	NKey     string     `name:"public-nkey" placeholder:"KEY" help:"Identify the user by this public nkey."`
	Session  string     `group:"sessions" brief:"" help:"Allow this session, to roles that are for one."`
	Queue    string     `brief:"" placeholder:"TOOL" help:"Allow the calls of this tool or queue, to the role worker."`
	WorkerID string     `placeholder:"ID" help:"Allow the announcements of this worker, to the role worker."`
	HookName string     `placeholder:"HOOK.SERVICE" help:"Allow to decide at this hook, to the role hook."`
	Answers  []string   `placeholder:"USER,…" help:"Allow to answer these users, to model_server and runner_replies."`
	Form     string     `default:"accounts" brief:"" help:"Write accounts or users for a server, claims of a JWT, or nsc."`
	Trusted  bool       `brief:"" help:"Trust the user with every stream: users, claims and nsc have roles that need it."`
	Prefix   string     `group:"server" default:"agent" help:"Begin every subject with this token."`

	subjects schemas.Subjects
}

// Check validates the names before anything is written.
func (c *permissionsCommand) Check(*cli.Call) (errs []error) {
	var names []string
	for _, r := range permissions.Roles() {
		names = append(names, string(r.Name))
	}
	if len(c.Names) == 0 {
		errs = append(errs, fmt.Errorf("no role: runner permissions ROLE… --user NAME, of %s", strings.Join(names, ", ")))
	}
	for _, name := range c.Names {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("there is no role %q%s", name, cli.Suggest(name, names)))
		}
	}
	if forms := []string{formAccounts, formUsers, formClaims, formNSC}; !slices.Contains(forms, c.Form) {
		errs = append(errs, fmt.Errorf("--form: there is no %q, only %s%s", c.Form, strings.Join(forms, ", "),
			cli.Suggest(c.Form, forms)))
	}
	if c.User == "" {
		errs = append(errs, errors.New("--user: who has the roles?"))
	}
	var err error
	if c.subjects, err = schemas.NewSubjects(c.Prefix); err != nil {
		errs = append(errs, fmt.Errorf("--prefix: %w", err))
	}
	if len(errs) > 0 {
		return errs
	}
	if _, err := c.user().Grant(c.subjects); err != nil {
		return append(errs, err)
	}
	if err := c.checkTrust(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// checkTrust refuses what an account cannot do, and to give somebody every stream by the way.
func (c *permissionsCommand) checkTrust() error {
	u := c.user()
	if c.Form == formAccounts {
		if _, err := c.accounts(u); err != nil {
			return fmt.Errorf("%w: --form users, claims or nsc write one", err)
		}
		return nil
	}
	if names := u.Trusted(); len(names) > 0 && !c.Trusted {
		return fmt.Errorf("--form %s: in the account of the streams the user can delete every stream, as %v: permissions do "+
			"not cover replies (docs/security.md#replies); give an account of its own to whoever is not to "+
			"(--form accounts, where the roles allow it), or trust the user (--trusted)", c.Form, names)
	}
	return nil
}

func (c *permissionsCommand) accounts(u permissions.User) (string, error) {
	return permissions.Accounts(c.subjects, []permissions.User{{Name: "runner"}}, []permissions.User{u})
}

func (c *permissionsCommand) user() permissions.User {
	u := permissions.User{Name: c.User, NKey: c.NKey, Session: c.Session, Queue: c.Queue, Worker: c.WorkerID,
		Hook: c.HookName, Answers: c.Answers}
	for _, name := range c.Names {
		u.Roles = append(u.Roles, permissions.Name(name))
	}
	return u
}

// Run writes the configuration. It connects to nothing.
func (c *permissionsCommand) Run(_ context.Context, io *cli.IO) (err error) {
	var text string
	u := c.user()
	switch c.Form {
	case formUsers:
		text, err = permissions.Users(c.subjects, nil, []permissions.User{u})
	case formAccounts:
		text, err = c.accounts(u)
	case formClaims:
		text, err = permissions.Claims(c.subjects, u)
	case formNSC:
		text, err = permissions.NSC(c.subjects, u)
	}
	if err == nil {
		_, err = fmt.Fprint(io.Stdout, text)
	}
	return err
}
