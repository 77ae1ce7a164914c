package dial

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// natsContext is the file of a context of the nats command line.
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

	// What nats.go cannot do by itself; refused.
	SocksProxy string `json:"socks_proxy"`
	NSC        string `json:"nsc"`
	UserJWT    string `json:"user_jwt"`
	WindowsTLS string `json:"windows_cert_store"`
}

// ReadContext reads a context of the nats command line and returns its URL and settings. The file is
// nats/context/<name>.json below $XDG_CONFIG_HOME, or below ~/.config; an absolute path names the file itself. In
// file names, ~ is the home directory, and environment variables are expanded. ReadContext refuses a context with a
// SOCKS proxy, a reference to nsc, a user JWT or a certificate of the Windows store, because it could not connect as
// the context describes.
func ReadContext(name string) (url string, s Settings, err error) {
	path, err := ContextFile(name)
	if err != nil {
		return "", Settings{}, err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", Settings{}, fmt.Errorf("nats context %q: %w", name, err)
	}
	var c natsContext
	if err := json.Unmarshal(raw, &c); err != nil {
		return "", Settings{}, fmt.Errorf("nats context %q: %s is not a context in JSON", name, path)
	}
	for setting, value := range map[string]string{
		"socks_proxy": c.SocksProxy, "nsc": c.NSC, "user_jwt": c.UserJWT, "windows_cert_store": c.WindowsTLS,
	} {
		if value != "" {
			return "", Settings{}, fmt.Errorf("nats context %q: its setting %s is not supported", name, setting)
		}
	}
	return c.URL, Settings{
		InboxPrefix: c.InboxPrefix, CredsFile: expand(c.Creds), NKeySeedFile: expand(c.NKey), User: c.User,
		Password: c.Password, Token: c.Token, CAFile: expand(c.CA), CertFile: expand(c.Cert), KeyFile: expand(c.Key),
		TLSFirst: c.TLSFirst, Domain: c.Domain, APIPrefix: c.APIPrefix,
	}, nil
}

// ContextFile returns the file that [ReadContext] reads.
func ContextFile(name string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if name == "" || strings.Contains(name, "..") || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("%q is not the name of a nats context", name)
	}
	config := os.Getenv("XDG_CONFIG_HOME")
	if config == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("nats context %q: %w", name, err)
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
