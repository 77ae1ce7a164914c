package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Field is one setting of a command. Make it with one of the functions named after its type; the variable it is given
// holds the default.
type Field struct {
	name, value, help string
	boolean, secret   bool
	set               func(string) error
	text              func() string
	check             func() error
}

func (f Field) env() string { return envName(f.name) }

func (f Field) flag() string {
	if f.boolean {
		return "--" + f.name
	}
	return "--" + f.name + " " + f.value
}

// shown is a value as it may stand in an error.
func (f Field) shown(value string) string {
	if f.secret {
		return "(hidden)"
	}
	return strconv.Quote(value)
}

// Secret keeps the field's values out of errors and help.
func (f Field) Secret() Field {
	f.secret = true
	return f
}

// Check adds a condition on the value that comes out in the end. It is not asked if the value could not be read.
func (f Field) Check(check func() error) Field {
	before := f.check
	f.check = func() error {
		if before != nil {
			if err := before(); err != nil {
				return err
			}
		}
		return check()
	}
	return f
}

// String is a text; value is what it is called in help, such as URL.
func String(name, value, help string, v *string) Field {
	return Field{name: name, value: value, help: help,
		set:  func(s string) error { *v = s; return nil },
		text: func() string { return *v },
	}
}

// Bool is a switch: the flag alone means true, --name=false the opposite.
func Bool(name, help string, v *bool) Field {
	return Field{name: name, help: help, boolean: true,
		set: func(s string) error {
			b, err := strconv.ParseBool(s)
			if err != nil {
				return errors.New("not true or false")
			}
			*v = b
			return nil
		},
		text: func() string { return strconv.FormatBool(*v) },
	}
}

// Int is a whole number from low to high.
func Int(name, help string, v *int, low, high int) Field {
	return Field{name: name, value: "N", help: help,
		set: func(s string) error {
			n, err := strconv.Atoi(strings.TrimSpace(s))
			if err != nil {
				return errors.New("not a whole number")
			}
			*v = n
			return nil
		},
		text: func() string { return strconv.Itoa(*v) },
		check: func() error {
			if *v < low || *v > high {
				return fmt.Errorf("not in %d to %d", low, high)
			}
			return nil
		},
	}
}

// Float is a number of at least low.
func Float(name, help string, v *float64, low float64) Field {
	return Field{name: name, value: "N", help: help,
		set: func(s string) error {
			n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
			if err != nil {
				return errors.New("not a number")
			}
			*v = n
			return nil
		},
		text: func() string { return strconv.FormatFloat(*v, 'f', -1, 64) },
		check: func() error {
			if !(*v >= low) {
				return fmt.Errorf("less than %v", low)
			}
			return nil
		},
	}
}

// Duration is a time such as 1m30s, of at least low.
func Duration(name, help string, v *time.Duration, low time.Duration) Field {
	return Field{name: name, value: "TIME", help: help,
		set: func(s string) error {
			d, err := time.ParseDuration(strings.TrimSpace(s))
			if err != nil {
				return errors.New("not a time such as 30s or 1h30m")
			}
			*v = d
			return nil
		},
		text: func() string { return v.String() },
		check: func() error {
			if *v < low {
				return fmt.Errorf("less than %s", low)
			}
			return nil
		},
	}
}

// List is a list of texts, separated by commas, or a list in a file. Blanks around them and empty ones are dropped.
func List(name, value, help string, v *[]string) Field {
	return Field{name: name, value: value, help: help,
		set: func(s string) error {
			list := []string{}
			for _, item := range strings.Split(s, ",") {
				if item = strings.TrimSpace(item); item != "" {
					list = append(list, item)
				}
			}
			*v = list
			return nil
		},
		text: func() string { return strings.Join(*v, ",") },
	}
}
