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

// digest identifies the settings that decide how sessions behave. All runners of a deployment should have the same,
// because any of them may drive any session. Keys, addresses and names are not part of it.
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
	if err != nil { // unreachable: every field can be encoded
		return "unknown"
	}
	sum := sha256.Sum256(deciding)
	return hex.EncodeToString(sum[:6])
}

// announcement is what a runner publishes about its settings when it starts, and in answer to others.
type announcement struct {
	ID       string `json:"id"`
	Settings string `json:"settings"`       // the digest
	Asks     bool   `json:"asks,omitempty"` // the receivers should answer
}

// fleetWait is how long --strict-fleet waits for the answers of other runners.
const fleetWait = 500 * time.Millisecond

// fleet compares this runner's settings with those of other runners.
type fleet struct {
	own     announcement
	nc      *nats.Conn
	subject string
	log     *slog.Logger

	mu     sync.Mutex
	others map[string]string // digests of runners whose settings differ, by runner id
}

// joinFleet publishes this runner's settings and receives those of others until the connection is closed. Both
// runners log a warning if their settings differ.
func joinFleet(conn *bus.Conn, id, digest string, log *slog.Logger) (*fleet, error) {
	f := &fleet{own: announcement{ID: id, Settings: digest}, nc: conn.NATS(), log: log, others: map[string]string{},
		subject: conn.Subjects().Prefix() + ".svc.runner.settings"}
	if _, err := f.nc.Subscribe(f.subject, f.receive); err != nil {
		return nil, fmt.Errorf("subscribe to the settings of other runners: %w", err)
	}
	return f, f.publish(true)
}

func (f *fleet) publish(asks bool) error {
	a := f.own
	a.Asks = asks
	payload, err := json.Marshal(a)
	if err == nil {
		err = f.nc.Publish(f.subject, payload)
	}
	if err != nil {
		return fmt.Errorf("publish the settings to other runners: %w", err)
	}
	return nil
}

// maxOthers limits the runners remembered: a client that may publish here could invent any number of ids.
const maxOthers = 1000

func (f *fleet) receive(m *nats.Msg) {
	var a announcement
	if !codec.IsAnnounced(m) || json.Unmarshal(m.Data, &a) != nil || a.ID == f.own.ID || a.Settings == "" ||
		schemas.CheckToken("runner id", a.ID) != nil {
		return
	}
	if a.Asks {
		if err := f.publish(false); err != nil {
			f.log.Warn("cannot publish the settings to another runner", "runner", a.ID, "err", err)
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
		f.log.Warn("another runner has different settings, sessions behave as the runner that drives them is configured",
			"runner", a.ID, "settings", a.Settings, "own", f.own.Settings)
	}
}

// strict returns an error if a runner that answers within fleetWait has different settings.
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
		return fmt.Errorf("--strict-fleet: runner %s has different settings (digest %s, this runner %s); start all runners "+
			"with the same settings", id, digest, f.own.Settings)
	}
	return nil
}
