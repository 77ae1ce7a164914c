package cli_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// values is a grammar of one command with all kinds of settings, in sections.
type values struct {
	Config cli.Config `embed:""`
	Named  struct {
		Name   string    `default:"anna" brief:"" help:"Take a name."`
		Secret string    `secret:"" help:"Keep a secret."`
		Line   cli.Lines `help:"Take lines."`
	} `embed:"" group:"names"`
	Limits struct {
		MaxTurns int           `default:"3" help:"Take turns."`
		MaxCost  float64       `help:"Cost this much."`
		Wait     time.Duration `default:"1s" help:"Wait this long."`
	} `embed:"" group:"limits"`
	JSON  bool     `name:"json" help:"Print JSON."`
	Tools []string `default:"read,ls" help:"Take tools."`
	Words []string `arg:"" optional:""`

	check func(*cli.Call) error
}

// Check makes the test's check.
func (v *values) Check(c *cli.Call) []error {
	if v.check == nil {
		return nil
	}
	return []error{v.check(c)}
}

type other struct {
	Config cli.Config `embed:""`
	Deep   string     `group:"names" help:"Go deep."`
	Where  string     `variable:"TEST_URL" help:"Go there."`
}

type grammar struct {
	Do    values `cmd:"" help:"Do something."`
	Other other  `cmd:"" help:"Do something else."`
}

// parse reads a command line of the command do, or of the one that args begin with.
func parse(v *values, env map[string]string, args ...string) (string, *other, error) {
	g := &grammar{}
	g.Do.check = v.check
	var out strings.Builder
	p := &cli.Program{Name: "test", About: "test does nothing.", Version: "1.2.3", Grammar: g, Default: "do"}
	environ := []string{"PATH=/bin"}
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	io := &cli.IO{Stdout: &out, Getenv: func(k string) string { return env[k] }}
	if env["check"] != "" {
		io.Environ = environ
	}
	_, err := p.Parse(args, io)
	*v = g.Do
	return out.String(), &g.Other, err
}

func TestOrderOfSources(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	content := "name: file\nmax-turns: 7\nwait: 3s\njson: true\ntools: [bash, ls]\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	var got values
	_, _, err := parse(&got, map[string]string{"LOOPBUS_NAME": "env", "LOOPBUS_MAX_TURNS": "5"},
		"--name", "flag", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if got.Named.Name != "flag" || got.Limits.MaxTurns != 5 || got.Limits.Wait != 3*time.Second || !got.JSON ||
		!slices.Equal(got.Tools, []string{"bash", "ls"}) {
		t.Errorf("got %+v", got)
	}
}

func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("colour: red\nmax-cost: lots\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := parse(new(values), map[string]string{"LOOPBUS_WAIT": "soon"}, "do",
		"--bogus", "x", "--max-turns=-1", "--config", file, "--nmae", "x")
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"unknown flag --bogus\n", "unknown flag --nmae, did you mean --name?", `unknown setting "colour"`,
		`--max-turns: "-1" must not be negative`,
		`LOOPBUS_WAIT: "soon" is not a duration`, `max-cost: "lots" is not a number`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestInfinityIsNoNumber(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"Inf", "+inf", "1e999", "NaN", "-Inf"} {
		if _, _, err := parse(new(values), nil, "do", "--max-cost="+text); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

func TestChecksRunDespiteOtherMistakes(t *testing.T) {
	t.Parallel()
	var v values
	v.check = func(c *cli.Call) error {
		if c.Given("name") || !c.ByFlag("max-turns") {
			t.Error("the check sees the wrong settings")
		}
		return errors.New("--name: taken")
	}
	_, _, err := parse(&v, nil, "--max-turns", "many")
	var usage cli.UsageError
	if want := "--max-turns: \"many\" is not a whole number\n--name: taken"; !errors.As(err, &usage) ||
		err.Error() != want || v.Limits.MaxTurns != 3 {
		t.Errorf("got %v with %d turns, want %s", err, v.Limits.MaxTurns, want)
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
		"flags": {[]string{"--line", "x=1, 2", "--line=y"}, map[string]string{"LOOPBUS_LINE": "z"},
			[]string{"x=1, 2", "y"}},
		"environment": {nil, map[string]string{"LOOPBUS_LINE": " a, b\n\nc\n"}, []string{"a, b", "c"}},
		"file":        {[]string{"--config", file}, nil, []string{"a, b", "c"}},
		"none":        {nil, nil, nil},
	} {
		var v values
		if _, _, err := parse(&v, c.env, c.args...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(c.want, []string(v.Named.Line)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestSectionsAndFlatKeys(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"names: {name: bert}\nlimits:\n  max-turns: 7\n": "",
		"name: bert\nmax-turns: 7\n":                     "",
		"names: {max-turns: 7}\n":                        `setting "names.max-turns" belongs to the section limits`,
		"limts: {max-turns: 7}\n":                        `unknown section "limts", did you mean limits?`,
		"limits: {max-turn: 7}\n":                        `unknown setting "limits.max-turn", did you mean max-turns?`,
		"max-turns: 7\nlimits: {max-turns: 8}\n":         `setting "max-turns" is given twice`,
		"deep: down\nname: bert\nmax-turns: 7\n":         "", // of the other command
		"secret: \"s3cret\nname: x\n":                    "could not find",
		"tools: [bash, ~]\n":                             "tools: item 2 is not a value; ~ and null need quotes",
		"tools: [[bash]]\n":                              "tools: item 1 is not a value",
		"tools: ~\n":                                     "tools: not a value",
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var v values
		_, _, err := parse(&v, nil, "--config", file)
		switch {
		case want == "" && (err != nil || v.Named.Name != "bert" || v.Limits.MaxTurns != 7):
			t.Errorf("%q: %+v, %v", content, v, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", content, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error quotes the file: %v", err)
		}
	}
}

func TestCommandsAndFlagsMayStandAnywhere(t *testing.T) {
	t.Parallel()
	var v values
	if _, _, err := parse(&v, nil, "--json", "-name", "x", "do", "a", "--max-turns=4", "b", "--", "--c"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(v.Words, []string{"a", "b", "--c"}) || !v.JSON || v.Named.Name != "x" || v.Limits.MaxTurns != 4 {
		t.Errorf("got %+v", v)
	}
	if _, _, err := parse(&v, nil, "othr"); err == nil || !strings.Contains(err.Error(), "did you mean other?") {
		t.Errorf("got %v", err)
	}
	_, o, err := parse(&v, map[string]string{"TEST_URL": "x"}, "other")
	if err != nil || o.Where != "x" {
		t.Errorf("the other variable: %+v, %v", o, err)
	}
}

func TestUnknownVariablesAreRefused(t *testing.T) {
	t.Parallel()
	_, _, err := parse(new(values), map[string]string{"check": "1", "LOOPBUS_MAX_TRUNS": "3", "LOOPBUS_STORE": "x"})
	if want := "unknown variable LOOPBUS_MAX_TRUNS, did you mean LOOPBUS_MAX_TURNS?"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestHelpVersionAndCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, has, lacks string }{
		{"--help", "--name TEXT", "--max-turns"},
		{"help --all", "--max-turns N", ""},
		{"do -h", "Take a name (default anna).", "--max-turns"},
		{"help other", "--deep", "--name"},
		{"--version", "test 1.2.3 (go", ""},
		{"completion bash", "complete -o default -F _test test", ""},
		{"completion zsh", "bashcompinit", ""},
		{"completion fish", "complete -c test -n '__fish_seen_subcommand_from other' -l deep -r", ""},
	} {
		out, _, err := parse(new(values), nil, strings.Fields(c.args)...)
		if !errors.Is(err, cli.ErrHelp) || !strings.Contains(out, c.has) || c.lacks != "" && strings.Contains(out, c.lacks) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
	if _, _, err := parse(new(values), nil, "completion", "fich"); err == nil ||
		!strings.Contains(err.Error(), "did you mean fish?") {
		t.Errorf("another shell: %v", err)
	}
}
