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

// Output forms of the configuration.
const (
	formAccounts = "accounts" // server configuration with an account for each user
	formUsers    = "users"    // server configuration with users of one account
	formClaims   = "claims"   // claims of a user JWT
	formNSC      = "nsc"      // an nsc command
)

// permissionsCommand is `runner permissions`.
type permissionsCommand struct {
	Config   cli.Config `embed:""`
	Names    []string   `arg:"" optional:"" name:"role" placeholder:"ROLE" help:"The roles of the user."`
	User     string     `group:"server" brief:"" placeholder:"NAME" help:"Set the user's name; its inbox is _INBOX_NAME."`
	NKey     string     `name:"public-nkey" placeholder:"KEY" help:"Identify the user by this public nkey."`
	Session  string     `group:"sessions" brief:"" help:"Restrict roles for one session to this session."`
	Queue    string     `brief:"" placeholder:"TOOL" help:"Allow the role worker the calls of this tool or queue."`
	WorkerID string     `placeholder:"ID" help:"Allow the role worker to announce tools with this worker id."`
	HookName string     `placeholder:"HOOK.SERVICE" help:"Allow the role hook to serve this hook."`
	Answers  []string   `placeholder:"USER,…" help:"Allow model_server and runner_replies to answer these users."`
	Form     string     `default:"accounts" brief:"" help:"Print accounts or users of a server, claims of a JWT, or nsc."`
	Trusted  bool       `brief:"" help:"Accept what roles in users, claims and nsc make possible."`
	Prefix   string     `group:"server" default:"agent" help:"Begin every subject with this token."`

	subjects schemas.Subjects
}

// Check validates everything before Run prints anything.
func (c *permissionsCommand) Check(*cli.Call) (errs []error) {
	var names []string
	for _, r := range permissions.Roles() {
		names = append(names, string(r.Name))
	}
	if len(c.Names) == 0 {
		errs = append(errs, fmt.Errorf("no role given: use runner permissions ROLE… --user NAME\nroles: %s",
			strings.Join(names, ", ")))
	}
	for _, name := range c.Names {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("unknown role %q%s", name, cli.Suggest(name, names)))
		}
	}
	if forms := []string{formAccounts, formUsers, formClaims, formNSC}; !slices.Contains(forms, c.Form) {
		errs = append(errs, fmt.Errorf("--form: %q is not one of %s%s", c.Form, strings.Join(forms, ", "),
			cli.Suggest(c.Form, forms)))
	}
	if c.User == "" {
		errs = append(errs, errors.New("--user: a user name is needed"))
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

// checkTrust returns an error if the form cannot express the roles safely: without --trusted, no user gets a way to do
// harm.
func (c *permissionsCommand) checkTrust() error {
	u := c.user()
	if c.Form == formAccounts {
		if _, err := c.accounts(u); err != nil {
			return fmt.Errorf("%w: use --form users, claims or nsc for this role", err)
		}
		return nil
	}
	if harm := u.Harm(); harm != "" && !c.Trusted {
		return fmt.Errorf("--form %s: in the account of the streams, the user can %s, because permissions do not cover "+
			"replies (docs/security.md#replies); put the user into an account of its own (--form accounts, if the roles "+
			"allow it), or accept this with --trusted", c.Form, harm)
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

// Run prints the configuration. It connects to nothing.
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
