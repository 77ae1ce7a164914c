package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/signals"
)

// interrupt is a context, and what the first interrupt does to it.
func interrupt(t *testing.T) (ctx context.Context, now func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	return ctx, func() { cancel(signals.Received{Signal: os.Interrupt}) }
}

// wantInterrupted runs the program with a context that an interrupt ends.
func wantInterrupted(ctx context.Context, t *testing.T, stdin io.Reader, want string, args ...string) {
	t.Helper()
	p, _ := program()
	err := p.Run(ctx, args, ioOf(stdin, io.Discard))
	var status cli.StatusError
	if !errors.As(err, &status) || status.Status != cli.StatusInterrupted {
		t.Errorf("%q: status %d, want %d", args, status.Status, cli.StatusInterrupted)
	}
	if err == nil || err.Error() != "interrupt signal received; "+want {
		t.Errorf("%q: got  %v\nwant interrupt signal received; %s", args, err, want)
	}
}

// Where a prompt was not sent yet, nobody may take it for sent; where the server has not acknowledged it, nobody knows.
func TestInterruptedBeforeTheAcknowledgement(t *testing.T) {
	t.Parallel()
	s := bustest.NATS(t, &server.Options{JetStream: true})
	c := bustest.Dial(t, bus.ConnOptions{URL: s.ClientURL(), Name: t.Name()})
	bustest.Setup(t, c, streams.Options{Partitions: bustest.SmallPartitions})
	const nothing = "nothing was sent to session "
	for _, m := range []struct{ session, subject, want string }{
		{"looks", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.looks", nothing + "looks"},
		{"sends", "agent.cmd.sends.prompt", "the prompt was sent to session sends, but not acknowledged: if it is stored, " +
			"the run of session sends continues. To see whether it is: replay show sends --nats " + s.ClientURL()},
	} {
		t.Run(m.session, func(t *testing.T) {
			ctx, now := interrupt(t)
			_, err := c.NATS().Subscribe("held."+m.session, func(*nats.Msg) { now() })
			if err = errors.Join(err, c.NATS().Flush(), s.GlobalAccount().AddMapping(m.subject, "held."+m.session)); err != nil {
				t.Fatal(err)
			}
			wantInterrupted(ctx, t, nil, m.want, "run", "go", "--nats", s.ClientURL(), "--session", m.session,
				"--abort-on-exit")
		})
	}
	ctx, now := interrupt(t)
	typed, terminal := io.Pipe()
	defer terminal.Close()
	interrupting := readFunc(func(p []byte) (int, error) { now(); return typed.Read(p) })
	wantInterrupted(ctx, t, interrupting, nothing+"s1", "run", "-",
		"--nats", s.ClientURL(), "--session", "s1")
	store := filepath.Join(t.TempDir(), "store")
	wantInterrupted(ctx, t, nil, nothing+"s1", "run", "go", "--session", "s1", "--model", "rehearsal", "--store", store)
	wantInterrupted(ctx, t, nil, nothing+"s1", "run", "go", "--session", "s1", "--model", "rehearsal")
	wantInterrupted(ctx, t, strings.NewReader(""), "what session s1 has received continues when a runner is started with "+
		"--store "+store, "chat", "--session", "s1", "--model", "rehearsal", "--store", store)
	wantInterrupted(ctx, t, strings.NewReader(""), "what session s1 has received continues", "chat", "--session", "s1",
		"--nats", s.ClientURL())
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// What is acknowledged is kept if there is a store.
func TestInterruptedInTheRun(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", slowScript)
	store := filepath.Join(t.TempDir(), "store")
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "the run of session s1 was stopped and is lost: without --store nothing is kept"},
		{[]string{"--store", store}, "the run of session s1 continues when a runner is started with --store " + store},
	} {
		p := start(t, nil, append([]string{"run", "go", "--session", "s1", "--model", "scripted", "--script", script},
			c.args...)...)
		eventually(t, "the reply is streamed", func() bool { return strings.Contains(p.stdout.String(), "half") })
		p.signal(os.Interrupt)
		p.wantExit(cli.StatusInterrupted)
		if got := p.stderr.String(); got != "runner: interrupt signal received; "+c.want+"\n" {
			t.Errorf("stderr has %q, want %s", got, c.want)
		}
	}
}

// A runner that fails says why, and nothing about a run that there never was.
func TestOneShotWhoseRunnerFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p, _ := program()
	err = p.Run(t.Context(), []string{"run", "go", "--model", "rehearsal", "--http", taken.Addr().String()},
		ioOf(nil, io.Discard))
	if err == nil || strings.Count(err.Error(), "address already in use") != 1 ||
		strings.Contains(err.Error(), "<nil>") || strings.Contains(err.Error(), "the run of session") {
		t.Errorf("got %v", err)
	}
}
