// Package config reads the settings of a command: flags, then the environment, then a YAML file, then defaults. All
// mistakes are found before anything is started and reported together, each with the setting's name and where it came
// from.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
)

// EnvPrefix is put before a setting's name in the environment: --max-turns is LOOPBUS_MAX_TURNS.
const EnvPrefix = "LOOPBUS_"

// ErrHelp is returned by [Set.Parse] after help was asked for and printed.
var ErrHelp = flag.ErrHelp

// Set is the settings of one command. Define them, then call Parse once. It is not safe for concurrent use.
type Set struct {
	name, usage string
	settings    []*setting
	checks      []func() error
	given       map[string]bool
}

type setting struct {
	name, def, help string
	boolean         bool
	repeated        bool // several values are one text, a line each
	set             func(string) error
}

// New returns an empty set for a command; usage is one line about it.
func New(name, usage string) *Set {
	s := &Set{name: name, usage: usage, given: make(map[string]bool)}
	s.add("config", "", "YAML `file` with settings by flag name", false, func(string) error { return nil })
	return s
}

func (s *Set) add(name, def, help string, boolean bool, set func(string) error) {
	s.settings = append(s.settings, &setting{name: name, def: def, help: help, boolean: boolean, set: set})
}

// String defines a text.
func (s *Set) String(p *string, name, def, help string) {
	s.add(name, def, help, false, func(v string) error { *p = v; return nil })
}

// Bool defines a switch.
func (s *Set) Bool(p *bool, name string, def bool, help string) {
	s.add(name, strconv.FormatBool(def), help, true, func(v string) (err error) {
		*p, err = parse(v, "true or false", strconv.ParseBool)
		return err
	})
}

// Int defines a whole number that is not negative.
func (s *Set) Int(p *int, name string, def int, help string) {
	s.add(name, strconv.Itoa(def), help, false, func(v string) error {
		n, err := parse(v, "a whole number", strconv.Atoi)
		if err == nil && n < 0 {
			err = fmt.Errorf("%q must not be negative", v)
		}
		*p = n
		return err
	})
}

// Float defines a number that is not negative.
func (s *Set) Float(p *float64, name string, def float64, help string) {
	s.add(name, strconv.FormatFloat(def, 'g', -1, 64), help, false, func(v string) error {
		n, err := parse(v, "a number", func(v string) (float64, error) { return strconv.ParseFloat(v, 64) })
		if err == nil && !(n >= 0) {
			err = fmt.Errorf("%q must not be negative", v)
		}
		*p = n
		return err
	})
}

// Duration defines a length of time such as 90s or 48h, not negative.
func (s *Set) Duration(p *time.Duration, name string, def time.Duration, help string) {
	s.add(name, def.String(), help, false, func(v string) error {
		d, err := parse(v, "a duration such as 90s or 48h", time.ParseDuration)
		if err == nil && d < 0 {
			err = fmt.Errorf("%q must not be negative", v)
		}
		*p = d
		return err
	})
}

// List defines texts separated by commas.
func (s *Set) List(p *[]string, name, def, help string) {
	s.add(name, def, help, false, func(v string) error {
		*p = nil
		for _, item := range strings.Split(v, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*p = append(*p, item)
			}
		}
		return nil
	})
}

// Lines defines texts that may hold anything but line breaks: the flag may be given more than once, in the environment there
// is a line for each, and in the file an item of a list.
func (s *Set) Lines(p *[]string, name, help string) {
	s.add(name, "", help, false, func(v string) error {
		*p = nil
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); line != "" {
				*p = append(*p, line)
			}
		}
		return nil
	})
	s.settings[len(s.settings)-1].repeated = true
}

// Check adds a check that is made after all settings have been read; its error is reported with the others. Where a
// setting is mistaken it finds the default. A file that cannot be read leaves the checks out.
func (s *Set) Check(f func() error) { s.checks = append(s.checks, f) }

// Name is what the program, or the part of it, is called.
func (s *Set) Name() string { return s.name }

// Given reports whether the setting was given at all, by flag, environment or file.
func (s *Set) Given(name string) bool { return s.given[name] }

func parse[T any](v, want string, f func(string) (T, error)) (T, error) {
	out, err := f(v)
	if err != nil {
		err = fmt.Errorf("%q is not %s", v, want)
	}
	return out, err
}

// Parse reads the settings. Help goes to out. An error holds every mistake, a line each; arguments that are no flags are
// a mistake unless takesArgs, and are returned.
func (s *Set) Parse(args []string, getenv func(string) string, out io.Writer, takesArgs bool) (rest []string, err error) {
	flags, rest, errs := s.flags(args, out)
	if len(errs) > 0 && errors.Is(errs[0], ErrHelp) {
		return nil, ErrHelp
	}
	if len(rest) > 0 && !takesArgs {
		errs = append(errs, fmt.Errorf("unexpected argument %q", rest[0]))
	}
	path, ok := flags["config"]
	if !ok {
		path = getenv(EnvPrefix + "CONFIG")
	}
	file, err := s.file(path)
	if err != nil {
		errs = append(errs, err)
	}
	for _, set := range s.settings {
		value, from := set.def, ""
		env := EnvPrefix + strings.ToUpper(strings.ReplaceAll(set.name, "-", "_"))
		if v, ok := flags[set.name]; ok {
			value, from = v, "--"+set.name
		} else if v := getenv(env); v != "" {
			value, from = v, env
		} else if v, ok := file[set.name]; ok {
			value, from = v, path+": "+set.name
		}
		s.given[set.name] = from != ""
		if err := set.set(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", from, err), set.set(set.def)) // checks find a sound value
		}
	}
	if err != nil && file == nil {
		return rest, errors.Join(errs...) // checks would complain of what the file may well say
	}
	for _, check := range s.checks {
		errs = append(errs, check())
	}
	return rest, errors.Join(errs...)
}

// flags returns the flags given, as text, the arguments behind them, and what is no flag of this command. It goes on
// behind an unknown flag, so that all mistakes come to light; what follows it and is no flag is taken for its value.
func (s *Set) flags(args []string, out io.Writer) (values map[string]string, rest []string, errs []error) {
	values = make(map[string]string)
	fs := flag.NewFlagSet(s.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, set := range s.settings {
		fs.Var(&raw{set, values}, set.name, set.help)
	}
	for {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			s.help(out)
			return nil, nil, []error{err}
		}
		if err == nil {
			return values, fs.Args(), errs
		}
		errs = append(errs, err)
		args = fs.Args()
		if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			args = args[1:]
		}
	}
}

// raw keeps a flag's text; what it means is looked at later, together with the other sources.
type raw struct {
	setting *setting
	values  map[string]string
}

func (r *raw) String() string   { return "" }
func (r *raw) IsBoolFlag() bool { return r.setting.boolean }

func (r *raw) Set(v string) error {
	if before, ok := r.values[r.setting.name]; ok && r.setting.repeated {
		v = before + "\n" + v
	}
	r.values[r.setting.name] = v
	return nil
}

func (s *Set) help(out io.Writer) {
	fmt.Fprintf(out, "%s\n\nEvery flag can also be given as %s<NAME> in the environment, or in a YAML file.\n\n", s.usage, EnvPrefix)
	sorted := append([]*setting(nil), s.settings...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].name < sorted[j].name })
	for _, set := range sorted {
		line := strings.ReplaceAll(set.help, "`", "")
		if set.def != "" && set.def != "false" && set.def != "0" && set.def != "0s" {
			line += " (default " + set.def + ")"
		}
		fmt.Fprintf(out, "  --%-18s %s\n", set.name, line)
	}
}

// file reads the YAML file. Unknown names are mistakes: a setting that is silently ignored is worse than none.
func (s *Set) file(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimSpace(err.Error()))
	}
	out := make(map[string]string, len(values))
	var errs []error
	for name, v := range values {
		switch v := v.(type) {
		case []any:
			items := make([]string, len(v))
			for i, item := range v {
				items[i] = fmt.Sprint(item)
			}
			out[name] = strings.Join(items, s.separator(name))
		case map[string]any, nil:
			errs = append(errs, fmt.Errorf("%s: %s: not a plain value", path, name))
		default:
			out[name] = fmt.Sprint(v)
		}
		if !s.known(name) {
			errs = append(errs, fmt.Errorf("%s: unknown setting %q", path, name))
		}
	}
	sort.Slice(errs, func(i, j int) bool { return errs[i].Error() < errs[j].Error() })
	return out, errors.Join(errs...)
}

// separator is what stands between the items of a list.
func (s *Set) separator(name string) string {
	for _, set := range s.settings {
		if set.name == name && set.repeated {
			return "\n"
		}
	}
	return ","
}

func (s *Set) known(name string) bool {
	for _, set := range s.settings {
		if set.name == name && name != "config" {
			return true
		}
	}
	return false
}
