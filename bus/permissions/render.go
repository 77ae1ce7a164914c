package permissions

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Core is the account of the streams, the runners and whoever else is trusted, where there are several accounts.
const Core = "LOOPBUS"

// Users renders users of one account: the block authorization of a server's configuration. trusted are users who may do
// everything, runners among them; of them only name and password count.
func Users(subjects schemas.Subjects, trusted, users []User) (string, error) {
	var b strings.Builder
	b.WriteString("authorization {\n  users: [\n")
	for _, u := range trusted {
		fmt.Fprintf(&b, "    { user: %s, password: %s }\n", quote(u.Name), quote(u.Password))
	}
	for _, u := range users {
		g, err := u.Grant(subjects)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "    { user: %s, password: %s, permissions: {\n      publish: %s\n"+
			"      subscribe: { allow: %s }\n    } }\n",
			quote(u.Name), quote(u.Password), publish(g.Publish), list(g.Subscribe))
	}
	b.WriteString("  ]\n}\n")
	return b.String(), nil
}

// publish allows subjects; none would allow all.
func publish(subjects []string) string {
	if len(subjects) == 0 {
		return `{ deny: [">"] }`
	}
	return "{ allow: " + list(subjects) + " }"
}

// Accounts renders an account for each user, who gets what it may do as imports from the account [Core], in which the
// streams, the runners and the trusted users are. Roles that are not importable are an error. The account's export is
// for these accounts only.
func Accounts(subjects schemas.Subjects, trusted, users []User) (string, error) {
	var core, others strings.Builder
	for _, u := range users {
		if err := importable(u); err != nil {
			return "", err
		}
		g, err := u.Grant(subjects)
		if err != nil {
			return "", err
		}
		var imports []string
		for _, s := range g.Publish {
			fmt.Fprintf(&core, "      { service: %s, response: stream, accounts: [%s] }\n", quote(s), quote(account(u)))
			imports = append(imports, fmt.Sprintf("      { service: { account: %s, subject: %s } }\n", quote(Core), quote(s)))
		}
		for _, s := range g.Subscribe[1:] { // the first is its inbox, which is in its own account
			fmt.Fprintf(&core, "      { stream: %s, accounts: [%s] }\n", quote(s), quote(account(u)))
			imports = append(imports, fmt.Sprintf("      { stream: { account: %s, subject: %s } }\n", quote(Core), quote(s)))
		}
		fmt.Fprintf(&others, "  %s {\n    users: [ { user: %s, password: %s } ]\n    imports: [\n%s    ]\n  }\n",
			quote(account(u)), quote(u.Name), quote(u.Password), strings.Join(imports, ""))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", quote(Core))
	for _, u := range trusted {
		fmt.Fprintf(&b, "      { user: %s, password: %s }\n", quote(u.Name), quote(u.Password))
	}
	fmt.Fprintf(&b, "    ]\n    exports: [\n%s    ]\n  }\n%s}\n", core.String(), others.String())
	return b.String(), nil
}

// account is the name of a user's account.
func account(u User) string { return Core + "_" + u.Name }

func importable(u User) error {
	var errs []error
	for _, name := range u.Roles {
		for _, r := range roles {
			if r.Name == name && !r.Importable() {
				errs = append(errs, fmt.Errorf("permissions: user %s: the role %s needs consumers, which an account of its own "+
					"cannot be given", u.Name, name))
			}
		}
	}
	return errors.Join(errs...)
}

func list(subjects []string) string {
	quoted := make([]string, len(subjects))
	for i, s := range subjects {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func quote(s string) string { return strconv.Quote(s) }
