package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// file reads a YAML mapping of settings. A key without a value counts as absent.
func (t *table) file(name string, read func(string) ([]byte, error)) ([]setting, error) {
	data, err := read(name)
	if err != nil {
		return nil, fmt.Errorf("configuration file: %w", err)
	}
	var entries yaml.MapSlice
	if err := yaml.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var settings []setting
	var mistakes []error
	for _, entry := range entries {
		key := fmt.Sprint(entry.Key)
		where := name + ": " + key
		if _, known := t.byName[key]; !known || key == FileSetting {
			mistakes = append(mistakes, fmt.Errorf("%s: unknown setting", where))
			continue
		}
		if entry.Value == nil {
			continue
		}
		value, err := scalar(entry.Value)
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", where, err))
			continue
		}
		settings = append(settings, setting{where, key, value})
	}
	return settings, errors.Join(mistakes...)
}

// scalar writes a value of the file as a flag would have it.
func scalar(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int, int64, uint64:
		return fmt.Sprint(v), nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			text, err := scalar(item)
			if err != nil || strings.Contains(text, ",") {
				return "", errors.New("a list may hold only texts without commas, and numbers")
			}
			items[i] = text
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("neither a text, a number, a switch nor a list")
}
