package config_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/config"
)

type settings struct {
	NATS    string
	Tools   []string
	Workers int
	Rate    float64
	Wait    time.Duration
	JSON    bool
	Key     string
}

func (s *settings) fields() []config.Field {
	return []config.Field{
		config.String("nats", "URL", "where the server is", &s.NATS).Check(func() error {
			if !strings.HasPrefix(s.NATS, "nats://") {
				return errors.New("not a nats URL")
			}
			return nil
		}),
		config.List("tools", "NAMES", "tools to serve", &s.Tools),
		config.Int("worker-count", "how many at once", &s.Workers, 1, 8),
		config.Float("rate", "how fast", &s.Rate, 0.5),
		config.Duration("wait", "how long", &s.Wait, time.Second),
		config.Bool("json", "print JSON", &s.JSON),
		config.String("key", "KEY", "the key", &s.Key).Secret().Check(func() error {
			if s.Key == "wrong" {
				return errors.New("no good")
			}
			return nil
		}),
	}
}

func defaults() settings {
	return settings{NATS: "nats://default", Tools: []string{"all"}, Workers: 2, Rate: 1, Wait: time.Minute, Key: "k"}
}

func load(args string, env map[string]string, file string) (settings, error) {
	s := defaults()
	err := config.Load(config.Sources{
		Args:   strings.Fields(args),
		Getenv: func(name string) string { return env[name] },
		ReadFile: func(name string) ([]byte, error) {
			if name != "conf.yaml" {
				return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			return []byte(file), nil
		},
	}, s.fields())
	return s, err
}

func TestSourcesInOrder(t *testing.T) {
	const file = "nats: nats://file\nworker-count: 3\nwait: 2s\ntools: [read, ls]\njson: true\nrate: 2.5\nkey:\n"
	for _, c := range []struct {
		name string
		args string
		env  map[string]string
		want func(*settings)
	}{
		{"defaults", "", nil, func(*settings) {}},
		{"file over default", "--config conf.yaml", nil, func(s *settings) {
			*s = settings{"nats://file", []string{"read", "ls"}, 3, 2.5, 2 * time.Second, true, "k"}
		}},
		{"environment over file", "", map[string]string{
			"LOOPBUS_CONFIG": "conf.yaml", "LOOPBUS_NATS": "nats://env", "LOOPBUS_WORKER_COUNT": "4", "LOOPBUS_JSON": "false",
		}, func(s *settings) {
			*s = settings{"nats://env", []string{"read", "ls"}, 4, 2.5, 2 * time.Second, false, "k"}
		}},
		{"flag over environment", "-nats=nats://flag --worker-count 5 --json --tools a,,b", map[string]string{
			"LOOPBUS_NATS": "nats://env", "LOOPBUS_TOOLS": "x", "LOOPBUS_KEY": "e",
		}, func(s *settings) {
			s.NATS, s.Workers, s.JSON, s.Tools, s.Key = "nats://flag", 5, true, []string{"a", "b"}, "e"
		}},
		{"the last flag counts", "--worker-count 5 --worker-count 6 --json=true --json=0", nil, func(s *settings) { s.Workers = 6 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := defaults()
			c.want(&want)
			got, err := load(c.args, c.env, file)
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestAllMistakesAreReported(t *testing.T) {
	_, err := load("--worker-count nine --what ever --wait 1ms stray --key wrong --rate", map[string]string{
		"LOOPBUS_JSON": "maybe", "LOOPBUS_CONFIG": "conf.yaml", "LOOPBUS_RATE": "0.1", "LOOPBUS_NATS": "http://x",
	}, "wait: soon\nunknown: 1\ntools: {a: b}\nconfig: other.yaml\n")
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`--what: unknown flag`,
		`"stray": unexpected argument`,
		`--rate: needs a value`,
		`conf.yaml: unknown: unknown setting`,
		`conf.yaml: tools: neither a text, a number, a switch nor a list`,
		`conf.yaml: config: unknown setting`,
		`conf.yaml: wait: "soon": not a time such as 30s or 1h30m`,
		`LOOPBUS_JSON: "maybe": not true or false`,
		`--worker-count: "nine": not a whole number`,
		`nats: "http://x": not a nats URL`,
		`rate: "0.1": less than 0.5`,
		`key: (hidden): no good`,
	}
	if d := cmp.Diff(want, strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestFileMistakes(t *testing.T) {
	if _, err := load("--config none.yaml", nil, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	for _, file := range []string{"a: [", "- list", "just text"} {
		if _, err := load("--config conf.yaml", nil, file); err == nil || !strings.HasPrefix(err.Error(), "conf.yaml: ") {
			t.Errorf("%q: %v", file, err)
		}
	}
	if _, err := load("--config conf.yaml", nil, ""); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestHelp(t *testing.T) {
	for _, args := range []string{"-h", "--help", "--worker-count x --help"} {
		if _, err := load(args, nil, ""); !errors.Is(err, config.ErrHelp) {
			t.Errorf("%s: %v", args, err)
		}
	}
	var b strings.Builder
	s := defaults()
	config.Usage(&b, "thing: does things.", s.fields())
	const want = `thing: does things.

  --config FILE     YAML file with these settings (LOOPBUS_CONFIG)
  --nats URL        where the server is (default nats://default, LOOPBUS_NATS)
  --tools NAMES     tools to serve (default all, LOOPBUS_TOOLS)
  --worker-count N  how many at once (default 2, LOOPBUS_WORKER_COUNT)
  --rate N          how fast (default 1, LOOPBUS_RATE)
  --wait TIME       how long (default 1m0s, LOOPBUS_WAIT)
  --json            print JSON (LOOPBUS_JSON)
  --key KEY         the key (LOOPBUS_KEY)
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
