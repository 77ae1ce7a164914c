package permissions

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// claims are the claims of a user JWT (version 2) that define permissions, as nsc shows them.
type claims struct {
	Name string     `json:"name"`
	Sub  string     `json:"sub,omitempty"` // public nkey
	NATS userClaims `json:"nats"`
}

type userClaims struct {
	Pub     rules      `json:"pub"`
	Sub     rules      `json:"sub"`
	Resp    *responses `json:"resp,omitempty"`
	Subs    int        `json:"subs"` // limits, -1 for none
	Data    int        `json:"data"`
	Payload int        `json:"payload"`
	Type    string     `json:"type"`
	Version int        `json:"version"`
}

type rules struct {
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

type responses struct {
	Max int           `json:"max"`
	TTL time.Duration `json:"ttl"` // nanoseconds; 0 means the server's default
}

// Claims renders a user as the claims of a JWT, in JSON, for signing with an account key or returning from an auth
// callout. The signer adds the issuer and the times.
func Claims(subjects schemas.Subjects, u User) (string, error) {
	g, err := u.Grant(subjects)
	if err != nil {
		return "", err
	}
	c := claims{Name: u.Name, Sub: u.NKey, NATS: userClaims{Pub: rules{g.Publish, g.DenyPublish},
		Sub: rules{g.Subscribe, g.DenySubscribe}, Subs: -1, Data: -1, Payload: -1, Type: "user", Version: 2}}
	for _, r := range []*rules{&c.NATS.Pub, &c.NATS.Sub} {
		if len(r.Allow) == 0 { // an empty list would allow everything
			r.Deny = []string{">"}
		}
	}
	if g.Responses {
		c.NATS.Resp = &responses{Max: 1}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // subjects have >
	enc.SetIndent("", "  ")
	err = enc.Encode(c)
	return b.String(), err
}

// NSC renders a user as an nsc command that creates the user. It contains the same comment as [Users].
func NSC(subjects schemas.Subjects, u User) (string, error) {
	g, err := u.Grant(subjects)
	if err != nil {
		return "", err
	}
	if len(g.Publish) == 0 {
		g.DenyPublish = []string{">"}
	}
	if len(g.Subscribe) == 0 {
		g.DenySubscribe = []string{">"}
	}
	var b strings.Builder
	if harm := u.Harm(); harm != "" {
		b.WriteString("# " + warning(u, harm) + "\n")
	}
	b.WriteString("nsc add user --name " + u.Name)
	if u.NKey != "" {
		b.WriteString(" --public-key " + u.NKey)
	}
	for _, part := range []struct {
		flag     string
		subjects []string
	}{{"--allow-pub", g.Publish}, {"--deny-pub", g.DenyPublish}, {"--allow-sub", g.Subscribe},
		{"--deny-sub", g.DenySubscribe}} {
		for _, s := range part.subjects {
			b.WriteString(" \\\n  " + part.flag + " '" + s + "'")
		}
	}
	if g.Responses {
		b.WriteString(" \\\n  --allow-pub-response=1")
	}
	b.WriteString("\n")
	return b.String(), nil
}
