package permissions

import (
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// User is somebody with roles.
type User struct {
	Name string // also of its inbox, _INBOX_<name>; a single subject token
	// Password as the server is to know it: bcrypt, or plain for a test. Without one, and without an NKey, a
	// configuration refers to the variable NATS_PASSWORD_ with the name in capitals behind it.
	Password string
	NKey     string // public nkey, in place of a password
	Roles    []Name
	Session  string   // of the roles that are for one
	Queue    string   // of a tool ([schemas.ToolQueue]), of the role [Worker]
	Worker   string   // id of the worker
	Hook     string   // and service, such as beforeToolCall.policy, of the role [Hook]
	Answers  []string // users that the user answers in their inboxes
}

// passwordVariable is the environment variable of the server that a configuration takes the password from.
func (u User) passwordVariable() string {
	return "NATS_PASSWORD_" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r - 'a' + 'A'
		}
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, u.Name)
}

// Grant is what a user may do. A subject to subscribe may be followed by a space and the queue group.
type Grant struct {
	Publish, Subscribe         []string
	DenyPublish, DenySubscribe []string
	Responses                  bool // may answer each request once
}

// Grant returns what the user may do below a prefix. An error names the name that is no subject token, or the role that
// does not exist or needs a name that the user does not have.
func (u User) Grant(subjects schemas.Subjects) (g Grant, err error) {
	if err := schemas.CheckToken("user", u.Name); err != nil {
		return g, fmt.Errorf("permissions: %w", err)
	}
	inbox := false
	for _, name := range u.Roles {
		r, ok := find(name)
		if !ok {
			return Grant{}, fmt.Errorf("permissions: user %s: there is no role %q", u.Name, name)
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

// Trusted returns the roles of the user that, in the account of the streams, can delete every stream: see [Role].
func (u User) Trusted() (names []Name) {
	for _, name := range u.Roles {
		if r, ok := find(name); ok && r.Trusted {
			names = append(names, name)
		}
	}
	return names
}

// inboxOf is a part of what a user subscribes for its replies, > for all of it.
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
		return errors.New("needs the users that are answered in their inboxes")
	}
	for _, other := range u.Answers {
		if err := schemas.CheckToken("user", other); err != nil {
			return err
		}
		g.Publish = append(g.Publish, inboxOf(other, part))
	}
	return nil
}

// fill writes the names of the user into a subject.
func (u User) fill(template string, subjects schemas.Subjects) string {
	return strings.NewReplacer("<prefix>", subjects.Prefix(), "<session>", u.Session, "<queue>", u.Queue,
		"<worker>", u.Worker, "<hook>", u.Hook, "<resources>", u.resources()).Replace(template)
}

// resources is the key of what the user's directory has for prompts.
func (u User) resources() string {
	queue, _ := schemas.ParseToolQueue(u.Queue) // of none there is no workspace
	return schemas.ResourcesKey(queue.Workspace, u.Worker)
}

// check checks the names that a subject needs.
func (u User) check(template string) error {
	var errs []error
	if strings.Contains(template, "<session>") {
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
