package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// natsContext is a context of the nats command line, as its file has it.
type natsContext struct {
	URL         string `json:"url"`
	Token       string `json:"token"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Creds       string `json:"creds"`
	NKey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	Domain      string `json:"jetstream_domain"`
	APIPrefix   string `json:"jetstream_api_prefix"`
	InboxPrefix string `json:"inbox_prefix"`
	TLSFirst    bool   `json:"tls_first"`

	// What this client cannot do, and says so.
	SocksProxy string `json:"socks_proxy"`
	NSC        string `json:"nsc"`
	UserJWT    string `json:"user_jwt"`
	WindowsTLS string `json:"windows_cert_store"`
}

// ReadContext reads a context of the nats command line: the URL and the options that it stands for. It is the file
// nats/context/<name>.json below $XDG_CONFIG_HOME, or else below ~/.config; an absolute path names the file itself. In
// the names of files ~ is the home directory, and environment variables are replaced. A context with a SOCKS proxy, a
// reference to nsc, a user JWT or a certificate of the Windows store is refused: this client would connect otherwise
// than the context says.
func ReadContext(name string) (url string, o Options, err error) {
	path, err := contextPath(name)
	if err != nil {
		return "", Options{}, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", Options{}, fmt.Errorf("client: nats context %q: %w", name, err)
	}
	var c natsContext
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", Options{}, fmt.Errorf("client: nats context %q: %s is not the JSON of one", name, path)
	}
	for setting, value := range map[string]string{
		"socks_proxy": c.SocksProxy, "nsc": c.NSC, "user_jwt": c.UserJWT, "windows_cert_store": c.WindowsTLS,
	} {
		if value != "" {
			return "", Options{}, fmt.Errorf("client: nats context %q: its setting %s is not supported", name, setting)
		}
	}
	return c.URL, Options{
		InboxPrefix: c.InboxPrefix, CredsFile: expand(c.Creds), NKeySeedFile: expand(c.NKey), User: c.User,
		Password: c.Password, Token: c.Token, CAFile: expand(c.CA), CertFile: expand(c.Cert), KeyFile: expand(c.Key),
		TLSFirst: c.TLSFirst, Domain: c.Domain, APIPrefix: c.APIPrefix,
	}, nil
}

func contextPath(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if name == "" || strings.Contains(name, "..") || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("client: %q is not the name of a nats context", name)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("client: nats context %q: %w", name, err)
		}
		config = filepath.Join(home, ".config")
	}
	return filepath.Join(config, "nats", "context", name+".json"), nil
}

func expand(path string) string {
	path = os.ExpandEnv(path)
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return home + rest
		}
	}
	return path
}

// over returns the options with those of a context where o has none. Credentials are taken over as a whole, as is TLS.
func (o Options) over(of Options) Options {
	if o.CredsFile == "" && o.NKeySeedFile == "" && o.User == "" && o.Token == "" {
		o.CredsFile, o.NKeySeedFile = of.CredsFile, of.NKeySeedFile
		o.User, o.Password, o.Token = of.User, of.Password, of.Token
	}
	if o.CertFile == "" && o.KeyFile == "" {
		o.CertFile, o.KeyFile = of.CertFile, of.KeyFile
	}
	if o.Domain == "" && o.APIPrefix == "" {
		o.Domain, o.APIPrefix = of.Domain, of.APIPrefix
	}
	o.CAFile, o.InboxPrefix = cmp.Or(o.CAFile, of.CAFile), cmp.Or(o.InboxPrefix, of.InboxPrefix)
	o.TLSFirst = o.TLSFirst || of.TLSFirst
	return o
}
