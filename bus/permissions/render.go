package permissions

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// Core is the account of the streams, the runners and other trusted users, if there are several accounts.
const Core = "LOOPBUS"

// Users renders users of one account: the authorization block of a server's configuration. trusted are users without
// restrictions; only their name and password count. A comment names the users who can do harm ([User.Harm]).
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
		if harm := u.Harm(); harm != "" {
			fmt.Fprintf(&b, "    # %s\n", warning(u, harm))
		}
		fmt.Fprintf(&b, "    { %s, permissions: {\n%s    } }\n", u.credentials(), g.config())
	}
	b.WriteString("  ]\n}\n")
	return b.String(), nil
}

// warning describes what permissions do not prevent for a user in the account of the streams.
func warning(u User, harm string) string {
	return fmt.Sprintf("%s can %s: permissions do not cover replies (docs/security.md)", u.Name, harm)
}

// credentials renders how the user authenticates.
func (u User) credentials() string {
	switch {
	case u.NKey != "":
		return "nkey: " + quote(u.NKey)
	case u.Password != "":
		return "user: " + quote(u.Name) + ", password: " + quote(u.Password)
	}
	return "user: " + quote(u.Name) + ", password: $" + u.passwordVariable()
}

// config renders the grant as the permissions of a user.
func (g Grant) config() string {
	text := "      publish: " + allowed(g.Publish, g.DenyPublish) + "\n" +
		"      subscribe: " + allowed(g.Subscribe, g.DenySubscribe) + "\n"
	if g.Responses {
		text += "      allow_responses: true\n"
	}
	return text
}

// allowed renders allowed and denied subjects. An empty list would allow everything.
func allowed(allow, deny []string) string {
	switch {
	case len(allow) == 0:
		return `{ deny: [">"] }`
	case len(deny) == 0:
		return "{ allow: " + list(allow) + " }"
	}
	return "{ allow: " + list(allow) + ", deny: " + list(deny) + " }"
}

// Accounts renders a separate account for each user. It imports what the user may do from the account [Core], which
// has the streams, the runners and the trusted users. A role that cannot be imported is an error. The exports of Core
// are for these accounts only.
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
				// For the unmapped subject, the server would also answer that this account has no JetStream.
				own = Core + ".API." + own
				as = ", to: " + quote(own)
				mappings = append(mappings, fmt.Sprintf("      %s: %s\n", quote(s), quote(own)))
			}
			imports = append(imports, fmt.Sprintf("      { service: { account: %s, subject: %s }%s }\n", quote(Core), quote(s),
				as))
		}
		for _, s := range g.Subscribe {
			if s == inboxOf(u.Name, ">") && !u.wantsOutcomes() {
				continue // replies arrive in its own account
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

// answers renders how many answers to a request pass to the requesting account, and how long the server remembers a
// request without an answer. It remembers every request, and a client may send them as fast as the network allows.
func answers(subjects schemas.Subjects, subject string) string {
	switch {
	case strings.Contains(subject, ".CONSUMER.MSG.NEXT."): // clients pull several messages at once and wait up to 30 s
		return `response: stream, response_threshold: "40s"`
	case subject == subjects.ModelRequest(): // at least one message per second
		return `response: stream, response_threshold: "10s"`
	case subject == subjects.ModelCall("*") || subject == subjects.LiveUpdate("*"): // never answered
		return `response: singleton, response_threshold: "1s"`
	}
	return `response: singleton, response_threshold: "15s"` // services of loopbus answer within 10 s
}

// account returns the name of a user's account.
func account(u User) string { return Core + "_" + u.Name }

// wantsOutcomes reports whether runners send outcomes to the user's inbox.
func (u User) wantsOutcomes() bool {
	return slices.ContainsFunc(u.Roles, func(name Name) bool {
		r, ok := find(name)
		return ok && r.Outcomes
	})
}

func importable(u User) error {
	var errs []error
	for _, name := range u.Roles {
		if r, ok := find(name); ok && !r.OwnAccount() {
			errs = append(errs, fmt.Errorf("permissions: user %s: the role %s makes consumers or answers requests, which "+
				"needs a user of the account of the streams", u.Name, name))
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
