package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// permissionsOf runs `runner permissions`.
func permissionsOf(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	p, _ := program()
	err := p.Run(t.Context(), append([]string{"permissions"}, args...), ioOf(strings.NewReader(""), &out))
	return out.String(), err
}

// What the command writes is a server's configuration as it stands, whose passwords are the server's to know.
func TestPermissionsCommand(t *testing.T) { // sets the environment
	t.Setenv("NATS_PASSWORD_ANN", "anns-password")
	t.Setenv("NATS_PASSWORD_RUNNER", "runners-password")
	for _, form := range []string{"users", "accounts"} {
		config, err := permissionsOf(t, "sender", "approver", "--session", "s1", "--user", "ann", "--form", form)
		if err != nil {
			t.Fatal(err)
		}
		nc, err := nats.Connect(serveConfig(t, config), nats.UserInfo("ann", "anns-password"),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		publish := func(subject string) error {
			return errors.Join(nc.Publish(subject, nil), nc.FlushTimeout(10*time.Second), nc.LastError())
		}
		if err := errors.Join(publish("agent.cmd.s1.prompt"), publish("agent.cmd.s1.approve")); err != nil {
			t.Errorf("%s: %v", form, err)
		}
		if err := publish("agent.cmd.s2.prompt"); form == "users" && !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: another session: %v", form, err)
		}
	}
}

func TestPermissionsCommandLine(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--user ann":                              "no role",
		"sendr --user ann --session s1":           "did you mean sender?",
		"sender --session s1":                     "--user",
		"sender --user ann":                       "session",
		"sender --user ann --session s1 --form x": "--form",
		"sender --user a.b --session s1":          `"a.b"`,
		"worker --user ann":                       "tool",
		"viewer --user ann --session s1":          "account of the streams: use --form users",

		"viewer --user ann --session s1 --form users":        "the user can delete every stream, as viewer, because",
		"sender live_viewer --user a --session s --form nsc": "the user can delete every stream, as live_viewer, because",
		"live_viewer --user ann --session s1 --form claims":  "--trusted",
	} {
		_, err := permissionsOf(t, strings.Fields(args)...)
		var usage cli.UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", args, err, want)
		}
	}
	for _, args := range []string{
		"worker --user w --queue bash --worker-id w1",
		"live_viewer --user ann --session s1 --form users --trusted",
		"hook --user pol --hook-name beforeToolCall.policy --form users",
	} {
		text, err := permissionsOf(t, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		if warned := strings.Contains(text, "can delete every stream"); warned != strings.Contains(args, "--trusted") {
			t.Errorf("%s: a warning: %v in\n%s", args, warned, text)
		}
	}
}
