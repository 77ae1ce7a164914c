package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/config"
)

type values struct {
	Name  string
	Turns int
	Cost  float64
	Wait  time.Duration
	JSON  bool
	Tools []string
	Lines []string
}

func define(v *values) *config.Set {
	s := config.New("test", "test does nothing")
	s.String(&v.Name, "name", "anna", "a name")
	s.Int(&v.Turns, "max-turns", 3, "turns")
	s.Float(&v.Cost, "max-cost", 0, "cost")
	s.Duration(&v.Wait, "wait", time.Second, "a wait")
	s.Bool(&v.JSON, "json", false, "JSON")
	s.List(&v.Tools, "tools", "read,ls", "tools")
	s.Lines(&v.Lines, "line", "a line")
	return s
}

func env(m map[string]string) func(string) string { return func(k string) string { return m[k] } }

func TestOrderOfSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	content := "name: file\nmax-turns: 7\nwait: 3s\njson: true\ntools: [bash, ls]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var got values
	_, err := define(&got).Parse([]string{"--name", "flag", "--config", file},
		env(map[string]string{"LOOPBUS_NAME": "env", "LOOPBUS_MAX_TURNS": "5"}), &strings.Builder{}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := values{Name: "flag", Turns: 5, Wait: 3 * time.Second, JSON: true, Tools: []string{"bash", "ls"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("colour: red\nmax-cost: lots\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := define(new(values)).Parse([]string{"--bogus", "x", "--max-turns=-1", "--config", file, "more"},
		env(map[string]string{"LOOPBUS_WAIT": "soon"}), &strings.Builder{}, false)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"flag provided but not defined: -bogus", `unexpected argument "more"`, `unknown setting "colour"`, `--max-turns: "-1" must not be negative`,
		`LOOPBUS_WAIT: "soon" is not a duration`, `max-cost: "lots" is not a number`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestChecksAreMadeBesideOtherMistakes(t *testing.T) {
	var v values
	s := define(&v)
	s.Check(func() error {
		if v.Turns != 3 {
			t.Errorf("the check finds %d turns, want the default", v.Turns)
		}
		return errors.New("--name: not hers")
	})
	_, err := s.Parse([]string{"--max-turns", "many"}, env(nil), &strings.Builder{}, false)
	if want := "--max-turns: \"many\" is not a whole number\n--name: not hers"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestHelpNamesEverySettingOnce(t *testing.T) {
	var out strings.Builder
	if _, err := define(new(values)).Parse([]string{"-h"}, env(nil), &out, false); !errors.Is(err, config.ErrHelp) {
		t.Fatalf("got %v", err)
	}
	for _, name := range []string{"name", "max-turns", "max-cost", "wait", "json", "tools", "config"} {
		if strings.Count(out.String(), "--"+name+" ") != 1 {
			t.Errorf("--%s in:\n%s", name, out.String())
		}
	}
}

func TestGivenAndChecks(t *testing.T) {
	var v values
	s := define(&v)
	s.Check(func() error {
		if s.Given("json") && v.Name == "anna" {
			return errors.New("--json needs --name")
		}
		return nil
	})
	if _, err := s.Parse([]string{"--json"}, env(nil), &strings.Builder{}, false); err == nil || err.Error() != "--json needs --name" {
		t.Errorf("got %v", err)
	}
}

func TestLinesAreKeptApart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("line: [\"a, b\", c]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want []string
	}{
		"flags":       {[]string{"--line", "x=1, 2", "--line=y"}, map[string]string{"LOOPBUS_LINE": "z"}, []string{"x=1, 2", "y"}},
		"environment": {nil, map[string]string{"LOOPBUS_LINE": " a, b\n\nc\n"}, []string{"a, b", "c"}},
		"file":        {[]string{"--config", file}, nil, []string{"a, b", "c"}},
		"none":        {nil, nil, nil},
	} {
		var v values
		if _, err := define(&v).Parse(c.args, env(c.env), &strings.Builder{}, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, v.Lines); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
