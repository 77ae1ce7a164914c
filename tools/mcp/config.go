package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// A ServerConfig describes how to reach an MCP server: Command with Args and Env is a process that uses standard
// input and output; URL with Headers is streamable HTTP.
type ServerConfig struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string
	URL     string
	Headers map[string]string

	secrets []string // values that must not appear in logs or errors
}

// fileConfig is the configuration format that MCP clients have in common.
type fileConfig struct {
	Servers map[string]fileServer `json:"mcpServers"`
}

type fileServer struct {
	Type     string            `json:"type"`
	Command  string            `json:"command"`
	Args     []string          `json:"args"`
	Env      map[string]string `json:"env"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Disabled bool              `json:"disabled"`
}

// ParseConfig parses {"mcpServers": {"name": {"command", "args", "env"} or {"url", "headers"}}} and returns the
// servers sorted by name, without disabled ones. In every text, ${NAME} is replaced by an environment variable, and
// ${NAME:-text} by text if the variable is not set. The error lists all mistakes and contains no values.
func ParseConfig(data []byte, getenv func(string) string) ([]ServerConfig, error) {
	var file fileConfig
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, withoutValues(err)
	}
	if len(file.Servers) == 0 {
		return nil, errors.New(`no server in "mcpServers"`)
	}
	var list []ServerConfig
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(file.Servers)) {
		f := file.Servers[name]
		if f.Disabled {
			continue
		}
		c := ServerConfig{Name: name, Command: f.Command, Args: f.Args, Env: f.Env, URL: f.URL, Headers: f.Headers}
		err := c.finish(getenv)
		if err == nil && f.Type == "sse" {
			err = errors.New("the transport sse is not supported, it was replaced by streamable HTTP")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("server %q: %w", name, err))
		}
		list = append(list, c)
	}
	return list, errors.Join(errs...)
}

// withoutValues returns a JSON error with the position of the mistake but without the text at it.
func withoutValues(err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	switch {
	case errors.As(err, &typ):
		return fmt.Errorf("%s is no %s", cmp.Or(typ.Field, "it"), typ.Type)
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON: mistake at byte %d", syntax.Offset)
	}
	return errors.New("it cannot be read as JSON")
}

// ParseServer parses name=COMMAND with arguments, quoted as in a shell, or name=URL. It replaces variables like
// [ParseConfig].
func ParseServer(text string, getenv func(string) string) (ServerConfig, error) {
	if urlRE.MatchString(text) {
		return ServerConfig{}, errors.New("the URL has no name: give name=URL") // a URL may have a secret
	}
	name, rest, ok := strings.Cut(text, "=")
	if !ok || strings.TrimSpace(rest) == "" {
		return ServerConfig{}, fmt.Errorf("%q is not name=COMMAND or name=URL", name)
	}
	c := ServerConfig{Name: strings.TrimSpace(name)}
	if rest = strings.TrimSpace(rest); urlRE.MatchString(rest) {
		c.URL = rest
	} else {
		list, err := words(rest)
		if err != nil {
			return c, fmt.Errorf("server %q: %w", c.Name, err)
		}
		c.Command, c.Args = list[0], list[1:]
	}
	if err := c.finish(getenv); err != nil {
		return c, fmt.Errorf("server %q: %w", c.Name, err)
	}
	return c, nil
}

// finish replaces variables, records secrets, and validates.
func (c *ServerConfig) finish(getenv func(string) string) error {
	var missing []string
	expand := func(text string) string {
		return variableRE.ReplaceAllStringFunc(text, func(m string) string {
			parts := variableRE.FindStringSubmatch(m)
			value := getenv(parts[1])
			if value == "" && parts[2] == "" {
				missing = append(missing, parts[1])
			}
			if value == "" {
				return parts[3]
			}
			c.secrets = append(c.secrets, value)
			return value
		})
	}
	c.Command, c.URL = expand(c.Command), expand(c.URL)
	c.Args = slices.Clone(c.Args)
	for i, arg := range c.Args {
		c.Args[i] = expand(arg)
	}
	c.Env, c.Headers = c.expandAll(c.Env, expand), c.expandAll(c.Headers, expand)
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("the environment has no %s", strings.Join(slices.Compact(missing), ", "))
	}
	return c.check()
}

var (
	variableRE = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)
	urlRE      = regexp.MustCompile(`^\s*[A-Za-z][A-Za-z0-9+.-]*://`)
)

// expandAll replaces variables in values and records all of the values as secrets.
func (c *ServerConfig) expandAll(values map[string]string, expand func(string) string) map[string]string {
	out := make(map[string]string, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out[name] = expand(values[name])
		c.secrets = append(c.secrets, out[name])
	}
	return out
}

func (c *ServerConfig) check() error {
	if strings.TrimSpace(c.Name) == "" {
		return errors.New("it has no name")
	}
	if (c.Command == "") == (c.URL == "") {
		return errors.New("either a command or a URL is needed")
	}
	if c.URL == "" {
		for name := range c.Env {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				return fmt.Errorf("env: %q is no name of a variable", name)
			}
		}
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("url: it is not an http or https URL with a host")
	}
	if u.User != nil {
		return errors.New("url: give the credentials in a header")
	}
	return nil
}

// words splits a command into words as a shell does, with quotes and backslashes but without any expansion. It returns
// an error if there is no word.
func words(text string) ([]string, error) {
	var list []string
	var word strings.Builder
	var quote rune // 0 outside of quotes
	begun, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			begun, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if begun {
				list = append(list, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("the command ends within quotes or after a backslash")
	}
	if begun {
		list = append(list, word.String())
	}
	if len(list) == 0 || list[0] == "" {
		return nil, errors.New("there is no command")
	}
	return list, nil
}
