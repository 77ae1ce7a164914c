package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// digest stands for the settings that decide how sessions behave: runners of one fleet should have the same, because
// any of them may drive any session. Keys, addresses and names are not among them.
func (o *options) digest() string {
	deciding, err := json.Marshal(struct {
		Defaults              schemas.RunConfig
		Policy                schemas.ToolPolicy
		Profile               string
		Window                int
		Idle, Grace, Unserved time.Duration
		Temperature           *float64
		MaxOutput             int
		CacheRetention        string
		Budgets               map[schemas.ThinkingLevel]int64
		Retention             map[string]retention.Rule
	}{
		o.runDefaults(), o.Policy.tools(o.Tools.ToolTimeout), o.Sessions.Profile, o.Tools.Window,
		o.Limits.IdleTimeout, o.Sessions.AbortGrace, o.Tools.Unserved, o.Models.degrees, o.Models.MaxOutput,
		o.Models.CacheRetention, o.Models.budgets, o.Retention.rules,
	})
	if err != nil { // nothing in it can fail
		return "unknown"
	}
	sum := sha256.Sum256(deciding)
	return hex.EncodeToString(sum[:6])
}

// announcement is what runners tell one another when they come.
type announcement struct {
	ID       string `json:"id"`
	Settings string `json:"settings"` // the digest
	Asks     bool   `json:"asks,omitempty"`
}

// fleetWait is how long a runner waits for the answers of the others before it serves.
const fleetWait = 500 * time.Millisecond

// fleet compares a runner's settings with those of the others.
type fleet struct {
	own     announcement
	nc      *nats.Conn
	subject string
	log     *slog.Logger

	mu     sync.Mutex
	others map[string]string // digests by id, of those that differ
}

// joinFleet publishes this runner's settings and receives the others', until the connection is closed. Whoever
// differs is warned about, here and there.
func joinFleet(conn *bus.Conn, id, digest string, log *slog.Logger) (*fleet, error) {
	f := &fleet{own: announcement{ID: id, Settings: digest}, nc: conn.NATS(), log: log, others: map[string]string{},
		subject: conn.Subjects().Prefix() + ".svc.runner.settings"}
	if _, err := f.nc.Subscribe(f.subject, f.receive); err != nil {
		return nil, fmt.Errorf("hear of the settings of other runners: %w", err)
	}
	return f, f.tell(true)
}

func (f *fleet) tell(asks bool) error {
	a := f.own
	a.Asks = asks
	payload, err := json.Marshal(a)
	if err == nil {
		err = f.nc.Publish(f.subject, payload)
	}
	if err != nil {
		return fmt.Errorf("tell other runners of the settings: %w", err)
	}
	return nil
}

// maxOthers bounds how many runners that differ are remembered: whoever may publish could name any number.
const maxOthers = 1000

func (f *fleet) receive(m *nats.Msg) {
	var a announcement
	if !codec.IsAnnounced(m) || json.Unmarshal(m.Data, &a) != nil || a.ID == f.own.ID || a.Settings == "" ||
		schemas.CheckToken("runner id", a.ID) != nil {
		return
	}
	if a.Asks {
		if err := f.tell(false); err != nil {
			f.log.Warn("cannot tell another runner of the settings", "runner", a.ID, "err", err)
		}
	}
	f.mu.Lock()
	known := f.others[a.ID]
	switch {
	case a.Settings == f.own.Settings:
		delete(f.others, a.ID)
	case len(f.others) < maxOthers || known != "":
		f.others[a.ID] = a.Settings
	}
	f.mu.Unlock()
	if a.Settings != f.own.Settings && known != a.Settings {
		f.log.Warn("another runner has other settings: sessions behave as the runner that drives them says",
			"runner", a.ID, "settings", a.Settings, "own", f.own.Settings)
	}
}

// strict refuses to serve together with runners with other settings that answer in time.
func (f *fleet) strict(ctx context.Context) error {
	wait := time.NewTimer(fleetWait)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, digest := range f.others {
		return fmt.Errorf("--strict-fleet: runner %s has other settings: %s, and this runner %s", id, digest, f.own.Settings)
	}
	return nil
}
