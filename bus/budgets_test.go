package bus_test

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

func usage(tokens int64, cost float64) schemas.Usage {
	return schemas.Usage{TotalTokens: tokens, Cost: schemas.Cost{Total: cost}}
}

func wantSpent(t *testing.T, b *bus.Budgets, per schemas.BudgetPeriod, at time.Time, tokens int64, cost float64) {
	t.Helper()
	gotTokens, gotCost, err := b.Spent(bustest.Deadline(t), "team", per, at)
	if err != nil || gotTokens != tokens || math.Abs(gotCost-cost) > 1e-9 {
		t.Errorf("spent per %q at %s: %d tokens, $%g, %v; want %d, $%g", per, at, gotTokens, gotCost, err, tokens, cost)
	}
}

// A usage counts once per day, month and in total, however often it is reported.
func TestBudgetsCountPerPeriod(t *testing.T) {
	t.Parallel()
	b := bus.NewBudgets(bustest.New(t))
	monday := time.Date(2026, 11, 30, 23, 59, 0, 0, time.UTC)
	tuesday := monday.Add(2 * time.Minute)
	wantSpent(t, b, "", monday, 0, 0)
	for range 3 {
		if err := b.Add(bustest.Deadline(t), "team", "s1/m4", monday, usage(100, 0.25)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Add(bustest.Deadline(t), "team", "s2/m4", tuesday, usage(10, 0.000002)); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(bustest.Deadline(t), "other", "s3/m4", tuesday, usage(1e6, 99)); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, b, schemas.PerDay, monday, 100, 0.25)
	wantSpent(t, b, schemas.PerDay, tuesday, 10, 0.000002)
	wantSpent(t, b, schemas.PerMonth, monday, 100, 0.25)
	wantSpent(t, b, "", tuesday, 110, 0.250002)
}

// A model server that reports impossible counts uses up budgets of tokens, and no other.
func TestACounterBeyondAnyBudget(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	b := bus.NewBudgets(c)
	at := time.Now()
	if err := b.Add(bustest.Deadline(t), "team", "s1/m4", at, usage(10, 0.25)); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		msg := nats.NewMsg(c.Subjects().Spent("team", "total", schemas.SpentTokens))
		msg.Header.Set(bus.HeaderIncr, strconv.FormatInt(math.MaxInt64, 10))
		if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
			t.Fatal(i, err)
		}
	}
	wantSpent(t, b, "", at, schemas.MaxInteger, 0.25)
}

func TestBudgetsCountConcurrently(t *testing.T) {
	t.Parallel()
	b := bus.NewBudgets(bustest.New(t))
	at := time.Now()
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			if err := b.Add(t.Context(), "team", fmt.Sprintf("s%d/m1", i), at, usage(3, 0.01)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	wantSpent(t, b, "", at, 150, 0.5)
}

// A replica that is behind does not have the counter. What was spent counts.
func TestSpentThoughAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	c, _ := bustest.Behind(t, schemas.StreamSpent)
	b := bus.NewBudgets(c)
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	if err := b.Add(bustest.Deadline(t), "team", "u1", at, schemas.Usage{TotalTokens: 100}); err != nil {
		t.Fatal(err)
	}
	wantSpent(t, b, schemas.PerDay, at, 100, 0)
}
