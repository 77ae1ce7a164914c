package config

import (
	"errors"
	"fmt"
	"strings"
)

// parseArgs reads flags: --name value, --name=value, and --name alone for switches; a single dash does too. All that is
// wrong is reported. Package flag would stop at the first mistake.
func (t *table) parseArgs(args []string) ([]setting, error) {
	var settings []setting
	var mistakes []error
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		name, value, hasValue := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if name == "h" || name == "help" {
			return nil, ErrHelp
		}
		f, known := t.byName[name]
		switch {
		case !strings.HasPrefix(arg, "-"):
			mistakes = append(mistakes, fmt.Errorf("%q: unexpected argument", arg))
			continue
		case !known:
			mistakes = append(mistakes, fmt.Errorf("--%s: unknown flag", name))
			if !hasValue && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				args = args[1:] // most likely its value
			}
			continue
		case hasValue:
		case f.boolean:
			value = "true"
		case len(args) == 0:
			mistakes = append(mistakes, fmt.Errorf("--%s: needs a value", name))
			continue
		default:
			value, args = args[0], args[1:]
		}
		settings = append(settings, setting{"--" + name, name, value})
	}
	return settings, errors.Join(mistakes...)
}
