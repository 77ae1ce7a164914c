package openaiapi_test

import (
	"testing"

	"github.com/loopbus/loopbus/providers/internal/openaiapi"
)

func TestErrorFromStreamEvent(t *testing.T) {
	for object, want := range map[string]string{
		`{"message":"m","code":5}`:                   "m",
		`{"message":"m","metadata":{"raw":"up"}}`:    "m\nup",
		`{"message":"m","metadata":{"raw":{"a":1}}}`: "m\n" + `{"a":1}`,
		`{"message":"m","metadata":"other"}`:         "m",
		`{"message":{"a": 1}}`:                       `{"a":1}`,
		`{"message":"", "code": 5}`:                  `{"message":"","code":5}`,
		`{"message":null}`:                           `{"message":null}`,
		`"a text"`:                                   `"a text"`,
		`[ 1 ]`:                                      `[1]`,
	} {
		if got := openaiapi.FromStream([]byte(object)).Error(); got != want {
			t.Errorf("%s: %q, want %q", object, got, want)
		}
	}
	if got := (&openaiapi.APIError{Status: 429, Detail: "slow", Raw: "down"}).Error(); got != "429 slow\ndown" {
		t.Errorf("%q", got)
	}
}

func TestTruthy(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, " null ": false, "false": false, "0": false, `""`: false, "true": true, "1": true, `"a"`: true, "{}": true,
		"[]": true,
	} {
		if got := openaiapi.Truthy([]byte(value)); got != want {
			t.Errorf("%q: %t", value, got)
		}
	}
}
