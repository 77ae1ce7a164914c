package keys_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers/keys"
)

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func want(t *testing.T, s keys.Source, provider, key string) {
	t.Helper()
	if got, err := s.Key(t.Context(), provider); err != nil || got != key {
		t.Errorf("key of %s: %q, %v; want %q", provider, got, err, key)
	}
}

type broken struct{}

func (broken) Key(context.Context, string) (string, error) { return "", errors.New("out of order") }

func TestTheFirstKeyCounts(t *testing.T) {
	env := keys.Env(func(name string) string {
		return map[string]string{"OPENAI_API_KEY": "of-the-environment", "GOOGLE_API_KEY": "second", "XAI_API_KEY": "x"}[name]
	})
	chain := keys.Chain{keys.Fixed{"openai": "of-a-flag"}, env}
	want(t, chain, "openai", "of-a-flag")
	want(t, chain, "google", "second")
	want(t, chain, "nobody", "")
	if key, err := (keys.Chain{broken{}, env}).Key(t.Context(), "xai"); err == nil || key != "" ||
		!strings.Contains(err.Error(), "xai") {
		t.Errorf("a source that fails: %q, %v", key, err)
	}
}

func TestAFileOfKeys(t *testing.T) {
	path := write(t, "keys.json", `{"openai":"first"}`, 0o600)
	f, err := keys.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want(t, f, "openai", "first")
	if err := os.WriteFile(path, []byte(`{"openai":"another"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, f, "openai", "another")
	for name, path := range map[string]string{
		"not an object": write(t, "list.json", `["sk-secret"]`, 0o600),
		"no JSON":       write(t, "broken.json", `{"a":"sk-secret`, 0o600),
		"not there":     filepath.Join(t.TempDir(), "nothing"),
	} {
		if _, err := keys.OpenFile(path); err == nil || strings.Contains(err.Error(), "sk-secret") ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	if _, err := keys.OpenFile(write(t, "open.json", `{}`, 0o644)); err == nil ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
}

// TestAKeyCommand counts the runs of a script by the lines that it appends to a file.
func TestAKeyCommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	count := filepath.Join(t.TempDir(), "count")
	script := func(answer string) *keys.Command {
		text := fmt.Sprintf("echo $1 >>%s\n%s\n", count, answer)
		return keys.NewCommand([]string{"GIVEN=key-of"}, "sh", write(t, "key.sh", text, 0o600))
	}
	runs := func() int {
		data, err := os.ReadFile(count)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
	plain := script("echo $GIVEN$HOME-$1") // HOME is not given
	want(t, plain, "openai", "key-of-openai")
	want(t, plain, "openai", "key-of-openai")
	if n := runs(); n != 2 {
		t.Errorf("a key without an expiry was asked for %d times, want 2", n)
	}
	short := script(fmt.Sprintf(`echo '{"key":"short-lived","expiresAt":"%s"}'`,
		time.Now().Add(time.Hour).Format(time.RFC3339)))
	want(t, short, "openai", "short-lived")
	want(t, short, "openai", "short-lived")
	if n := runs(); n != 3 {
		t.Errorf("a key that lives for an hour was asked for %d times, want once", n-2)
	}
	old := script(fmt.Sprintf(`echo '{"key":"nearly-over","expiresAt":"%s"}'`,
		time.Now().Add(time.Second).Format(time.RFC3339)))
	want(t, old, "openai", "nearly-over")
	want(t, old, "openai", "nearly-over")
	if n := runs(); n != 5 {
		t.Errorf("a key that is nearly over was asked for %d times, want 2", n-3)
	}
	want(t, script("true"), "openai", "")
	for name, c := range map[string]*keys.Command{
		"fails": script("echo sk-secret >&2; exit 3"), "says more than a key": script("echo sk-secret is the key"),
		"broken JSON": script(`echo '{"key":"sk-secret'`),
	} {
		if key, err := c.Key(t.Context(), "openai"); err == nil || key != "" || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
}

// TestAKeyCommandIsNotWaitedForAfterTheCallEnds has one call run the program, and cancels another one that waits for
// it.
func TestAKeyCommandIsNotWaitedForAfterTheCallEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		return
	}
	gate := filepath.Join(t.TempDir(), "gate")
	begun := filepath.Join(t.TempDir(), "begun")
	c := keys.NewCommand(os.Environ(), "sh", write(t, "key.sh",
		fmt.Sprintf("touch %s\nwhile [ ! -e %s ]; do sleep 0.01; done\necho late\n", begun, gate), 0o600))
	var first sync.WaitGroup
	first.Go(func() { want(t, c, "openai", "late") })
	for end := time.Now().Add(time.Minute); ; {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the program never ran")
		}
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Key(ctx, "openai"); !errors.Is(err, context.Canceled) {
		t.Errorf("the call that was given up ends with %v", err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first.Wait()
}
