package cli

import (
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Lines is a list of texts without line breaks. The flag may be repeated, the environment variable has a line for
// each, and the file a list. Other lists are separated by commas.
type Lines []string

// collector records the text of each flag; it is parsed later, together with the other sources.
type collector struct{ given map[*kong.Value]string }

// Decode records the text of a flag, or sets an argument.
func (c *collector) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	if ctx.Value.Flag == nil {
		return argument(ctx, target)
	}
	token, err := ctx.Scan.PopValue("value")
	if err != nil {
		return err
	}
	text := token.String()
	if before, ok := c.given[ctx.Value]; ok && target.Type() == reflect.TypeFor[Lines]() {
		text = before + "\n" + text
	}
	c.given[ctx.Value] = text
	return nil
}

// argument sets one argument, or a list of all remaining ones.
func argument(ctx *kong.DecodeContext, target reflect.Value) error {
	if target.Kind() == reflect.Slice {
		for _, token := range ctx.Scan.PopWhile(func(t kong.Token) bool { return t.IsValue() }) {
			target.Set(reflect.Append(target, reflect.ValueOf(token.String())))
		}
		return nil
	}
	token, err := ctx.Scan.PopValue("argument")
	if err == nil {
		target.SetString(token.String())
	}
	return err
}

// boolCollector is the collector of switches, which may have no value.
type boolCollector struct{ *collector }

// IsBool tells kong that the flag is a switch.
func (boolCollector) IsBool() bool { return true }

// Decode records the value after "=", or true.
func (c boolCollector) Decode(ctx *kong.DecodeContext, _ reflect.Value) error {
	c.given[ctx.Value] = "true"
	if ctx.Scan.Peek().Type == kong.FlagValueToken {
		c.given[ctx.Value] = ctx.Scan.Pop().String()
	}
	return nil
}

// set parses a text and assigns the value to a setting. If the text is invalid, it leaves the setting unchanged.
func set(target reflect.Value, text string) error {
	switch v := target.Addr().Interface().(type) {
	case *string:
		*v = text
	case *bool:
		return parse(v, text, "true or false", strconv.ParseBool)
	case *int:
		return notNegative(v, text, "a whole number", strconv.Atoi)
	case *float64:
		return notNegative(v, text, "a number", finite)
	case *time.Duration:
		return notNegative(v, text, "a duration such as 90s or 48h", time.ParseDuration)
	case *[]string:
		*v = nil
		for _, item := range strings.Split(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*v = append(*v, item)
			}
		}
	case *Lines:
		*v = nil
		for item := range strings.Lines(text) {
			if item = strings.TrimSpace(item); item != "" {
				*v = append(*v, item)
			}
		}
	default:
		return fmt.Errorf("unsupported setting type %s", target.Type())
	}
	return nil
}

func parse[T any](to *T, text, want string, f func(string) (T, error)) error {
	v, err := f(text)
	if err != nil {
		return fmt.Errorf("%q is not %s", text, want)
	}
	*to = v
	return nil
}

func notNegative[T int | float64 | time.Duration](to *T, text, want string, f func(string) (T, error)) error {
	var v T
	if err := parse(&v, text, want, f); err != nil {
		return err
	}
	if !(v >= 0) { // also true for NaN
		return fmt.Errorf("%q must not be negative", text)
	}
	*to = v
	return nil
}

// finite parses a number. Infinity is refused: JSON has no such number, so settings with it could not be stored.
func finite(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && math.IsInf(v, 0) {
		err = errors.New("infinite")
	}
	return v, err
}

// CheckAddress returns an error unless address is host:port or "".
func CheckAddress(flag, address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not host:port", flag, address)
	}
	return nil
}
