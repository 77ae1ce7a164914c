package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/retention"
)

func TestRetentionIsRead(t *testing.T) {
	t.Parallel()
	o := retentionSettings{RetainAge: []string{"720h", "legal=0", "scratch=1h"},
		RetainSize: []string{"10GiB", "scratch=5MiB"}}
	for _, err := range o.Check(nil) {
		if err != nil {
			t.Error(err)
		}
	}
	want := map[string]retention.Rule{"": {MaxAge: 720 * time.Hour, MaxBytes: 10 << 30}, "legal": {MaxBytes: 10 << 30},
		"scratch": {MaxAge: time.Hour, MaxBytes: 5 << 20}}
	if d := cmp.Diff(want, o.rules); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for _, bad := range []retentionSettings{{RetainAge: []string{"1s"}}, {RetainAge: []string{"720"}},
		{RetainAge: []string{"-1h"}}, {RetainAge: []string{"1h", "2h"}}, {RetainAge: []string{"a b=1h"}},
		{RetainSize: []string{"10"}}, {RetainSize: []string{"0GiB"}}, {RetainSize: []string{"99999999999TiB"}}} {
		failed := false
		for _, err := range bad.Check(nil) {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("accepted: %+v", bad)
		}
	}
}

// The rules may be in the file and in the environment too, and reach what a runner is made of.
func TestRetentionIsASetting(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "nats: nats://127.0.0.1:4222\nretain-age: [720h, legal=0]\n")
	env := map[string]string{"LOOPBUS_CONFIG": file, "LOOPBUS_RETAIN_SIZE": "10GiB,scratch=5MiB"}
	read, err := parse(nil, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]retention.Rule{"": {MaxAge: 720 * time.Hour, MaxBytes: 10 << 30}, "legal": {MaxBytes: 10 << 30},
		"scratch": {MaxAge: 720 * time.Hour, MaxBytes: 5 << 20}}
	if d := cmp.Diff(want, read.Options.Retention.rules); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
