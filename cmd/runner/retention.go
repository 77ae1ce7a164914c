package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// retentionSettings select sessions to delete. They belong to the runner and not to profiles: a user who may write a
// profile must not thereby be able to delete sessions.
type retentionSettings struct {
	RetainAge  []string `help:"Delete sessions idle for longer than TIME, or PROFILE=TIME; 0 keeps all."`
	RetainSize []string `help:"Delete a profile's oldest sessions beyond SIZE, or PROFILE=SIZE; 0 keeps all."`

	rules map[string]retention.Rule
}

// minRetention prevents a typing error from deleting everything.
const minRetention = time.Minute

// Check parses the rules.
func (o *retentionSettings) Check(*cli.Call) (errs []error) {
	o.rules = map[string]retention.Rule{}
	ages, sizes := map[string]bool{}, map[string]bool{}
	for _, text := range o.RetainAge {
		profile, value := ruleOf(text)
		age, err := time.ParseDuration(value)
		if value == "0" {
			age, err = 0, nil
		}
		if err != nil || age != 0 && age < minRetention {
			errs = append(errs, fmt.Errorf("--retain-age: %q is not a duration of at least one minute, such as 720h", text))
		}
		errs = append(errs, onlyOnce("--retain-age", profile, ages))
		rule := o.rules[profile]
		rule.MaxAge = age
		o.rules[profile] = rule
	}
	for _, text := range o.RetainSize {
		profile, value := ruleOf(text)
		size, err := parseSize(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("--retain-size: %q is not a size such as 500MiB or 10GiB", text))
		}
		errs = append(errs, onlyOnce("--retain-size", profile, sizes))
		rule := o.rules[profile]
		rule.MaxBytes = size
		o.rules[profile] = rule
	}
	o.inherit(ages, sizes)
	return errs
}

// inherit completes the rules of profiles that set only an age or only a size, with the value for all profiles.
func (o *retentionSettings) inherit(ages, sizes map[string]bool) {
	for profile, rule := range o.rules {
		if !ages[profile] {
			rule.MaxAge = o.rules[""].MaxAge
		}
		if !sizes[profile] {
			rule.MaxBytes = o.rules[""].MaxBytes
		}
		o.rules[profile] = rule
	}
}

// ruleOf splits PROFILE=VALUE; profile is "" if there is only a value.
func ruleOf(text string) (profile, value string) {
	if profile, value, ok := strings.Cut(text, "="); ok {
		return profile, value
	}
	return "", text
}

func onlyOnce(flag, profile string, seen map[string]bool) error {
	if seen[profile] {
		return fmt.Errorf("%s: more than one rule for profile %q", flag, profile)
	}
	seen[profile] = true
	if profile == "" {
		return nil
	}
	if err := schemas.CheckToken("profile", profile); err != nil {
		return fmt.Errorf("%s: %w", flag, err)
	}
	return nil
}

// parseSize parses a number of bytes with a binary unit; 0 means no limit.
func parseSize(text string) (int64, error) {
	const mib, gib, tib = 20, 30, 40
	for unit, shift := range map[string]int{"MiB": mib, "GiB": gib, "TiB": tib} {
		if number, ok := strings.CutSuffix(text, unit); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			if err == nil && (n < 1 || n > (1<<62)>>shift) {
				err = strconv.ErrRange
			}
			return n << shift, err
		}
	}
	if text == "0" {
		return 0, nil
	}
	return 0, strconv.ErrSyntax
}
