package permissions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// User is a user with roles.
type User struct {
	Name string // name of the user and of its inbox, _INBOX_<name>; a single subject token
	// Password in the form of the server's configuration: bcrypt, or plain text for tests. Without Password and NKey,
	// the configuration refers to the variable NATS_PASSWORD_<NAME>: the name in capitals, with x and two hexadecimal
	// digits for each character but a-z, 0-9 and _ (x2d for a hyphen).
	Password string
	NKey     string // public nkey, instead of a password
	Roles    []Name
	Session  string   // for roles that apply to one session
	Queue    string   // tool queue ([schemas.ToolQueue]) of the role [Worker]
	Worker   string   // worker id of the role [Worker]
	Hook     string   // hook and service of the role [Hook], such as beforeToolCall.policy
	Answers  []string // users whose requests the user answers
}

// passwordVariable returns the environment variable of the server that holds the password: of no two names the same.
func (u User) passwordVariable() string {
	var b strings.Builder
	b.WriteString("NATS_PASSWORD_")
	for _, c := range []byte(u.Name) {
		switch {
		case c >= 'a' && c <= 'z':
			b.WriteByte(c - 'a' + 'A')
		case c >= '0' && c <= '9' || c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "x%02x", c)
		}
	}
	return b.String()
}

// Grant lists a user's permissions. A subject of Subscribe may be followed by a space and a queue group.
type Grant struct {
	Publish, Subscribe         []string
	DenyPublish, DenySubscribe []string
	Responses                  bool // may answer each request once
}

// Grant returns the user's permissions below a prefix. It returns an error that names an invalid name, a role that
// does not exist, or what a role needs and the user does not have.
func (u User) Grant(subjects schemas.Subjects) (g Grant, err error) {
	if err := schemas.CheckToken("user", u.Name); err != nil {
		return g, fmt.Errorf("permissions: %w", err)
	}
	inbox := false
	for _, name := range u.Roles {
		r, ok := find(name)
		if !ok {
			return Grant{}, fmt.Errorf("permissions: user %s: unknown role %q", u.Name, name)
		}
		if err := u.add(&g, r, subjects); err != nil {
			return Grant{}, fmt.Errorf("permissions: user %s, role %s: %w", u.Name, name, err)
		}
		inbox = inbox || !r.NoInbox
	}
	if inbox {
		g.Subscribe = append([]string{inboxOf(u.Name, ">")}, g.Subscribe...)
	}
	return g, nil
}

// Harm returns what the user can do in the account of the streams although no permission allows it, with the roles that
// make it possible, and "" if nothing; see [Role].
func (u User) Harm() string {
	var parts []string
	for _, harm := range []string{harmDelete, harmRepeat} {
		var names []string
		for _, name := range u.Roles {
			if r, ok := find(name); ok && r.Harm == harm {
				names = append(names, string(name))
			}
		}
		if len(names) > 0 {
			parts = append(parts, harm+", as "+strings.Join(names, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// inboxOf returns a subject of a user's inbox; part is ">" for all of it.
func inboxOf(user, part string) string { return "_INBOX_" + user + "." + part }

func (u User) add(g *Grant, r Role, subjects schemas.Subjects) error {
	for _, part := range []struct {
		to        *[]string
		templates []string
	}{
		{&g.Publish, r.Publish}, {&g.Subscribe, r.Subscribe}, {&g.DenyPublish, r.Deny}, {&g.DenySubscribe, r.Deny},
		{&g.DenySubscribe, r.DenySubscribe},
	} {
		for _, template := range part.templates {
			if err := u.check(template); err != nil {
				return err
			}
			*part.to = append(*part.to, expand(u.fill(template, subjects))...)
		}
	}
	g.Responses = g.Responses || r.Responses
	if r.Answers != "" {
		return u.addInboxes(g, r.Answers)
	}
	return nil
}

func (u User) addInboxes(g *Grant, part string) error {
	if len(u.Answers) == 0 {
		return errors.New("needs the names of the users whose requests are answered")
	}
	for _, other := range u.Answers {
		if err := schemas.CheckToken("user", other); err != nil {
			return err
		}
		g.Publish = append(g.Publish, inboxOf(other, part))
	}
	return nil
}

// fill replaces the placeholders of a subject.
func (u User) fill(template string, subjects schemas.Subjects) string {
	return strings.NewReplacer("<prefix>", subjects.Prefix(), "<session>", u.Session, "<queue>", u.Queue,
		"<worker>", u.Worker, "<hook>", u.Hook, "<resources>", u.resources()).Replace(template)
}

// resources returns the resources key of the user's worker.
func (u User) resources() string {
	queue, _ := schemas.ParseToolQueue(u.Queue) // an invalid queue has no workspace
	return schemas.ResourcesKey(queue.Workspace, u.Worker)
}

// check validates the names that a subject needs.
func (u User) check(template string) error {
	var errs []error
	switch {
	case !strings.Contains(template, "<session>"):
	case u.Session == "":
		errs = append(errs, errors.New("needs a session id"))
	default:
		errs = append(errs, schemas.CheckSession(u.Session))
	}
	if strings.Contains(template, "<queue>") {
		_, err := schemas.ParseToolQueue(u.Queue)
		errs = append(errs, err)
	}
	if strings.Contains(template, "<worker>") || strings.Contains(template, "<resources>") {
		errs = append(errs, schemas.CheckToken("worker", u.Worker))
	}
	if strings.Contains(template, "<hook>") {
		hook, service, _ := strings.Cut(u.Hook, ".")
		errs = append(errs, schemas.CheckToken("hook", hook), schemas.CheckToken("hook service", service))
	}
	return errors.Join(errs...)
}
