// Package config fills a command's settings from four sources: a flag wins over a variable of the environment, that over a
// file, that over the default. A command declares its settings in one table of [Field]s.
//
// A setting called stop-timeout is the flag --stop-timeout, the variable LOOPBUS_STOP_TIMEOUT and the key stop-timeout
// in a YAML file, which --config or LOOPBUS_CONFIG names. Load looks at everything before it complains, and then names
// every mistake with the place, the setting and the value.
package config

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// EnvPrefix begins the names of all variables.
const EnvPrefix = "LOOPBUS_"

// ErrHelp is returned by [Load] when help was asked for. Nothing else has been looked at then.
var ErrHelp = errors.New("help requested")

// FileSetting is the name of the setting that every command has besides its own: the configuration file.
const FileSetting = "config"

// Sources is where settings come from. Only Load reads them.
type Sources struct {
	// Args are the command's arguments without its name.
	Args []string
	// Getenv is os.Getenv. An empty variable counts as absent.
	Getenv func(string) string
	// ReadFile is os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Load writes the settings to the variables of the fields, which hold the defaults. The error joins all mistakes; the
// variables are then of no use.
func Load(src Sources, fields []Field) error {
	file := ""
	fields = append([]Field{String(FileSetting, "FILE", "YAML file with these settings", &file)}, fields...)
	t := table{fields: fields, byName: map[string]Field{}}
	for _, f := range fields {
		t.byName[f.name] = f
	}
	flags, err := t.parseArgs(src.Args)
	if errors.Is(err, ErrHelp) {
		return ErrHelp
	}
	t.add(err)
	env := t.environment(src.Getenv)
	if f := last(append(env, flags...), FileSetting); f != "" {
		settings, err := t.file(f, src.ReadFile)
		t.add(err)
		t.apply(settings)
	}
	t.apply(env)
	t.apply(flags)
	for _, f := range fields {
		if f.check == nil || t.bad[f.name] {
			continue
		}
		if err := f.check(); err != nil {
			t.add(fmt.Errorf("%s: %s: %w", f.name, f.shown(f.text()), err))
		}
	}
	return errors.Join(t.mistakes...)
}

// A setting is a value for a field, as text, and where it comes from.
type setting struct{ where, name, value string }

type table struct {
	fields   []Field
	byName   map[string]Field
	bad      map[string]bool // fields that got a value they cannot hold
	mistakes []error
}

func (t *table) add(err error) {
	if err != nil {
		t.mistakes = append(t.mistakes, err)
	}
}

func (t *table) apply(settings []setting) {
	for _, s := range settings {
		f := t.byName[s.name]
		if err := f.set(s.value); err != nil {
			t.add(fmt.Errorf("%s: %s: %w", s.where, f.shown(s.value), err))
			if t.bad == nil {
				t.bad = map[string]bool{}
			}
			t.bad[f.name] = true
		}
	}
}

func (t *table) environment(getenv func(string) string) []setting {
	var settings []setting
	for _, f := range t.fields {
		if value := getenv(f.env()); value != "" {
			settings = append(settings, setting{f.env(), f.name, value})
		}
	}
	return settings
}

// last is the value a setting has after all of the list, "" if it has none.
func last(settings []setting, name string) (value string) {
	for _, s := range settings {
		if s.name == name {
			value = s.value
		}
	}
	return value
}

// Usage writes one line for each setting: flag, meaning, default and variable.
func Usage(w io.Writer, head string, fields []Field) {
	_, _ = fmt.Fprintf(w, "%s\n\n", head)
	none := ""
	fields = append([]Field{String(FileSetting, "FILE", "YAML file with these settings", &none)}, fields...)
	width := 0
	for _, f := range fields {
		width = max(width, len(f.flag()))
	}
	for _, f := range fields {
		notes := f.env()
		if text := f.text(); text != "" && !f.secret && !(f.boolean && text == "false") {
			notes = "default " + text + ", " + notes
		}
		_, _ = fmt.Fprintf(w, "  %-*s  %s (%s)\n", width, f.flag(), f.help, notes)
	}
}

func envName(name string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}
