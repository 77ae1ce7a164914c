package main

import (
	"runtime"
	"testing"
)

// The program of --key-command gets those of the runner's variables that commands of bash may see, and those that are
// named.
func TestKeyCommandHasFewVariables(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return
	}
	script := write(t, "key.sh", "echo $LANG,$VAULT_ADDR,$OPENAI_API_KEY,$LOOPBUS_PASSWORD,$1\n")
	m := modelSettings{KeyCommand: "/bin/sh " + script, KeyCommandEnv: []string{"VAULT_*"}, Model: modelRehearsal,
		Thinking: "off", CacheRetention: "short", environ: []string{
			"LANG=C", "VAULT_ADDR=vault", "OPENAI_API_KEY=" + secret, "LOOPBUS_PASSWORD=" + secret}}
	if errs := m.resolve(func(string) string { return "" }); len(errs) > 0 {
		t.Fatal(errs)
	}
	if got, err := m.keys.Key(t.Context(), "openai"); err != nil || got != "C,vault,,,openai" {
		t.Errorf("the program saw %q, %v", got, err)
	}
}
