package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/loopbus/loopbus/tools/flatyaml"
)

// reader reads the YAML file of a program: settings by name, at the top level or in the sections of the help.
type reader struct {
	path  string
	model *kong.Application
	out   map[string]string
	errs  []error
}

// readFile reads the YAML file. A setting that no command of the program has is a mistake; settings of other commands
// are not, so that all commands can share a file. The map is nil without a file, or if it cannot be read.
func readFile(path string, model *kong.Application) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	var values map[string]any
	if err := flatyaml.Unmarshal(data, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &reader{path: path, model: model, out: map[string]string{}}
	for name, v := range values {
		section, ok := v.(map[string]any)
		if !ok {
			r.setting(name, name, "", v)
			continue
		}
		if !slices.Contains(r.sections(), name) {
			r.mistake(fmt.Errorf("%s: unknown section %q%s", path, name, Suggest(name, r.sections())))
			continue
		}
		for inner, v := range section {
			r.setting(inner, name+"."+inner, name, v)
		}
	}
	slices.SortFunc(r.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return r.out, errors.Join(r.errs...)
}

func (r *reader) mistake(err error) { r.errs = append(r.errs, err) }

// setting records a setting. place is its path in the file, section its section or "".
func (r *reader) setting(name, place, section string, v any) {
	flags := r.flags(name)
	if len(flags) == 0 || name == "config" {
		r.mistake(fmt.Errorf("%s: unknown setting %q%s", r.path, place, Suggest(name, r.names())))
		return
	}
	if of := group(flags[0]); section != "" && of != section {
		r.mistake(fmt.Errorf("%s: setting %q belongs to the section %s", r.path, place, of))
		return
	}
	if _, twice := r.out[name]; twice {
		r.mistake(fmt.Errorf("%s: setting %q is given twice", r.path, name))
		return
	}
	switch v := v.(type) {
	case []any:
		separator := ","
		if _, ok := flags[0].Target.Interface().(Lines); ok {
			separator = "\n"
		}
		items := make([]string, len(v))
		for i, item := range v {
			switch item.(type) {
			case nil, []any, map[string]any:
				r.mistake(fmt.Errorf("%s: %s: item %d is not a value; ~ and null need quotes", r.path, place, i+1))
				return
			}
			items[i] = fmt.Sprint(item)
		}
		r.out[name] = strings.Join(items, separator)
	case map[string]any, nil:
		r.mistake(fmt.Errorf("%s: %s: not a value or a list of values", r.path, place))
	default:
		r.out[name] = fmt.Sprint(v)
	}
}

// flags returns the flags with a name, of any command.
func (r *reader) flags(name string) (flags []*kong.Flag) {
	for _, n := range r.model.Children {
		if f := flagOf(n, name); f != nil {
			flags = append(flags, f)
		}
	}
	return flags
}

func (r *reader) names() []string { return settingsOf(r.model) }

func (r *reader) sections() (all []string) {
	for _, n := range r.model.Children {
		for _, f := range n.Flags {
			if g := group(f); g != "" && !slices.Contains(all, g) {
				all = append(all, g)
			}
		}
	}
	return all
}

// group returns the section of a flag, "" if it has none.
func group(f *kong.Flag) string {
	if f.Group == nil {
		return ""
	}
	return f.Group.Key
}

// settingsOf returns the names of all settings of a program, sorted.
func settingsOf(model *kong.Application) (names []string) {
	for _, n := range model.Children {
		for _, f := range n.Flags {
			if f.Name != "config" {
				names = append(names, f.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
