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
// everything; of them only name and password count. A comment names the users who can delete every stream ([Role]).
func Users(subjects schemas.Subjects, trusted, users []User) (string, error) {
	var b strings.Builder
	b.WriteString("authorization {\n  users: [\n")
	for _, u := range trusted {
		fmt.Fprintf(&b, "    { %s }\n", u.credentials())
	}
	for _, u := range users {
		g, err := u.Grant(subjects)
		if err != nil {
			return "", err
		}
		if names := u.Trusted(); len(names) > 0 {
			fmt.Fprintf(&b, "    # %s\n", warning(u, names))
		}
		fmt.Fprintf(&b, "    { %s, permissions: {\n%s    } }\n", u.credentials(), g.config())
	}
	b.WriteString("  ]\n}\n")
	return b.String(), nil
}

// warning says of a user of the account of the streams what permissions do not keep it from.
func warning(u User, roles []Name) string {
	return fmt.Sprintf("%s can delete every stream, as %s: permissions do not cover replies (docs/security.md)", u.Name,
		joinNames(roles))
}

func joinNames(roles []Name) string {
	text := make([]string, len(roles))
	for i, name := range roles {
		text[i] = string(name)
	}
	return strings.Join(text, ", ")
}

// credentials are how a configuration says who a user is.
func (u User) credentials() string {
	switch {
	case u.NKey != "":
		return "nkey: " + quote(u.NKey)
	case u.Password != "":
		return "user: " + quote(u.Name) + ", password: " + quote(u.Password)
	}
	return "user: " + quote(u.Name) + ", password: $" + u.passwordVariable()
}

// config is the grant as the permissions of a user in a configuration.
func (g Grant) config() string {
	text := "      publish: " + allowed(g.Publish, g.DenyPublish) + "\n" +
		"      subscribe: " + allowed(g.Subscribe, g.DenySubscribe) + "\n"
	if g.Responses {
		text += "      allow_responses: true\n"
	}
	return text
}

// allowed allows and denies subjects. None allowed would allow all.
func allowed(allow, deny []string) string {
	switch {
	case len(allow) == 0:
		return `{ deny: [">"] }`
	case len(deny) == 0:
		return "{ allow: " + list(allow) + " }"
	}
	return "{ allow: " + list(allow) + ", deny: " + list(deny) + " }"
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
		var imports, mappings []string
		for _, s := range g.Publish {
			fmt.Fprintf(&core, "      { service: %s, %s, accounts: [%s] }\n", quote(s), answers(subjects, s),
				quote(account(u)))
			as := ""
			if own, ok := strings.CutPrefix(s, "$JS.API."); ok && strings.Contains(own, ".INFO.") {
				// To such a request the server answers, too, that the account has no JetStream.
				own = Core + ".API." + own
				as = ", to: " + quote(own)
				mappings = append(mappings, fmt.Sprintf("      %s: %s\n", quote(s), quote(own)))
			}
			imports = append(imports, fmt.Sprintf("      { service: { account: %s, subject: %s }%s }\n", quote(Core), quote(s),
				as))
		}
		for _, s := range g.Subscribe {
			if s == inboxOf(u.Name, ">") {
				continue // in its own account
			}
			fmt.Fprintf(&core, "      { stream: %s, accounts: [%s] }\n", quote(s), quote(account(u)))
			imports = append(imports, fmt.Sprintf("      { stream: { account: %s, subject: %s } }\n", quote(Core), quote(s)))
		}
		fmt.Fprintf(&others, "  %s {\n    users: [ { %s } ]\n    imports: [\n%s    ]\n", quote(account(u)), u.credentials(),
			strings.Join(imports, ""))
		if len(mappings) > 0 {
			fmt.Fprintf(&others, "    mappings: {\n%s    }\n", strings.Join(mappings, ""))
		}
		others.WriteString("  }\n")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", quote(Core))
	for _, u := range trusted {
		fmt.Fprintf(&b, "      { %s }\n", u.credentials())
	}
	fmt.Fprintf(&b, "    ]\n    exports: [\n%s    ]\n  }\n%s}\n", core.String(), others.String())
	return b.String(), nil
}

// answers says how many answers to a request at a subject pass to the account that has asked, and how long a server
// remembers one that gets none: it remembers each, and somebody may ask as fast as the network carries.
func answers(subjects schemas.Subjects, subject string) string {
	switch {
	case strings.Contains(subject, ".CONSUMER.MSG.NEXT."): // libraries wait 30 s for a message, for several at a time
		return `response: stream, response_threshold: "40s"`
	case subject == subjects.ModelRequest(): // a message each second, or the call is lost
		return `response: stream, response_threshold: "10s"`
	case subject == subjects.ModelCall("*") || subject == subjects.LiveUpdate("*"): // nobody answers
		return `response: singleton, response_threshold: "1s"`
	}
	return `response: singleton, response_threshold: "15s"` // services of loopbus answer within 10 s
}

// account is the name of a user's account.
func account(u User) string { return Core + "_" + u.Name }

func importable(u User) error {
	var errs []error
	for _, name := range u.Roles {
		if r, ok := find(name); ok && !r.OwnAccount() {
			errs = append(errs, fmt.Errorf("permissions: user %s: the role %s makes consumers or answers requests, which "+
				"takes a user of the account of the streams", u.Name, name))
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
