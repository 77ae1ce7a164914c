package cli

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// EnvPrefix begins the name of a setting's environment variable: --max-turns is LOOPBUS_MAX_TURNS.
const EnvPrefix = "LOOPBUS_"

// Config has the settings that every command has.
type Config struct {
	Config string `placeholder:"FILE" brief:"" help:"Read settings from a YAML file, by flag name or in sections."`
}

func variable(name string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// resolve sets every setting of the command and runs the checks. If the file cannot be read, it skips the checks:
// they could report settings as missing that the file sets.
func (c *Call) resolve(model *kong.Application, given map[*kong.Value]string) (errs []error) {
	path := c.IO.Getenv(EnvPrefix + "CONFIG")
	for _, f := range c.node.Flags {
		if text, ok := given[f.Value]; ok && f.Name == "config" {
			path = text
		}
	}
	file, err := readFile(path, model)
	errs = append(errs, err, c.unknownVariables())
	for _, f := range c.node.Flags {
		errs = append(errs, c.resolveOne(f, given, file, path))
	}
	if err != nil && file == nil {
		return errs
	}
	return append(errs, c.check(c.node.Target)...)
}

func (c *Call) resolveOne(f *kong.Flag, given map[*kong.Value]string, file map[string]string, path string) error {
	if f.Default != "" {
		if err := set(f.Target, f.Default); err != nil {
			return fmt.Errorf("--%s: default: %w", f.Name, err)
		}
	} else {
		f.Target.SetZero()
	}
	text, from := "", ""
	if v, ok := given[f.Value]; ok {
		text, from = v, "--"+f.Name
	} else if v := c.IO.Getenv(variable(f.Name)); v != "" {
		text, from = v, variable(f.Name)
	} else if v, ok := file[f.Name]; ok {
		text, from = v, path+": "+f.Name
	} else if name := f.Tag.Get("variable"); name != "" && c.IO.Getenv(name) != "" {
		text, from = c.IO.Getenv(name), name
	}
	c.sources[f.Name] = from
	if from == "" {
		return nil
	}
	if err := set(f.Target, text); err != nil {
		if f.Tag.Has("secret") {
			err = errors.New("the value is invalid")
		}
		return fmt.Errorf("%s: %w", from, err)
	}
	return nil
}

// check runs the checks of a command and of the structs embedded in it, inner ones first. Structs are embedded as
// named fields, so that no Check method is promoted and called twice.
func (c *Call) check(v reflect.Value) (errs []error) {
	for i := range v.NumField() {
		if _, embedded := v.Type().Field(i).Tag.Lookup("embed"); embedded {
			errs = append(errs, c.check(v.Field(i))...)
		}
	}
	if checker, ok := v.Addr().Interface().(Checker); ok {
		errs = append(errs, checker.Check(c)...)
	}
	return errs
}

// unknownVariables rejects LOOPBUS_ variables that none of the programs has: a setting must not be ignored silently.
func (c *Call) unknownVariables() error {
	var errs []error
	for _, entry := range c.IO.Environ {
		name, _, _ := strings.Cut(entry, "=")
		rest, ours := strings.CutPrefix(name, EnvPrefix)
		if !ours || rest == "CONFIG" {
			continue
		}
		names := allVariables()
		if _, known := slices.BinarySearch(names, name); !known {
			errs = append(errs, fmt.Errorf("unknown variable %s%s", name, Suggest(name, names)))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
