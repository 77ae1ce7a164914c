package keys

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/keycache"
)

const (
	commandTimeout = 30 * time.Second
	maxKeyOutput   = 64 << 10
	// expiryMargin is how long before its expiry a key is no longer used, so that it is valid when a request arrives.
	expiryMargin = 30 * time.Second
)

// Command gets keys from a program. It passes the provider as the last argument; the program prints the key, nothing
// if it has none, or a JSON object {"key": "...", "expiresAt": "RFC 3339"}. Only a key with an expiry time is reused
// until then. The program runs once at a time for each provider, for all who need the key ([keycache.Cache]).
type Command struct {
	environ, args []string
	timeout       time.Duration
	cache         keycache.Cache
}

// NewCommand returns a source that runs a program with arguments, and with environ as its environment, in the form of
// [os.Environ]. Other processes of the user, such as commands of the tool bash without a sandbox, can read it.
func NewCommand(environ []string, args ...string) *Command {
	return &Command{environ: environ, args: args, timeout: commandTimeout}
}

// Key is [Source.Key].
func (c *Command) Key(ctx context.Context, provider string) (string, error) {
	return c.cache.Key(ctx, provider, func(ctx context.Context) (key string, until time.Time, err error) {
		out, err := c.run(ctx, provider)
		if err != nil {
			return "", until, err
		}
		return ParseAnswer(out)
	})
}

func (c *Command) run(ctx context.Context, provider string) ([]byte, error) {
	if len(c.args) == 0 {
		return nil, errors.New("no key command given")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, schemas.NewFailure(schemas.FailureTimeout,
		fmt.Sprintf("key command %s timed out: no key within %s", c.args[0], c.timeout)))
	defer cancel()
	cmd := exec.CommandContext(ctx, c.args[0], append(c.args[1:len(c.args):len(c.args)], provider)...)
	cmd.Env = append([]string{}, c.environ...) // not nil: the program would have all variables of this process
	var out limited
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil { // its standard error may contain secrets and is not used
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("key command %s: %w", c.args[0], err)
	}
	return out.Bytes(), nil
}

// limited keeps the first maxKeyOutput bytes that are written.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, maxKeyOutput-l.Len()))])
	return len(p), nil
}

// ParseAnswer parses the answer of a key command or a key service: a key as plain text, or a JSON object with key and
// expiresAt. until is the zero time for a key that must not be reused.
func ParseAnswer(out []byte) (key string, until time.Time, err error) {
	text := strings.TrimSpace(string(out))
	if !strings.HasPrefix(text, "{") {
		if strings.ContainsAny(text, " \t\r\n") {
			return "", until, errors.New("the answer is neither a key nor a JSON object")
		}
		return text, until, nil
	}
	var answer schemas.KeyAnswer
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		return "", until, errors.New("the answer is no JSON object with key and expiresAt")
	}
	if !answer.ExpiresAt.IsZero() {
		until = answer.ExpiresAt.Add(-expiryMargin)
	}
	return answer.Key, until, nil
}
