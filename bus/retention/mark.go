package retention

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// mark is what the keepers of a deployment have seen of the time. The one that works stores it in the bucket in each
// round, so that the next one, perhaps of another process, sees a clock that has jumped ahead. That looks the same as a
// deployment that was down. So ages leave out time that no keeper saw pass, until keepers have seen a day pass since,
// in which an operator can correct the clock (decision 160).
type mark struct {
	Time time.Time `json:"time"` // of the last round
	// Jumps are those that are not believed yet, in their order.
	Jumps []jump `json:"jumps,omitempty"`
}

// jump is a time that no keeper saw pass.
type jump struct {
	From time.Time     `json:"from"` // of the round before
	Seen time.Duration `json:"seen"` // how much time keepers have seen pass since, in nanoseconds
}

const (
	keyMark = "clock"
	// believedAfter is how much time has to be seen to pass before a jump is believed by all rules.
	believedAfter = 24 * time.Hour
	// maxJumps is the largest number of jumps that are told apart.
	maxJumps = 16
	// late and lateIntervals together are how long after another a round may come: a lease expires in three intervals.
	late          = 10 * time.Minute
	lateIntervals = 4
)

// advance sets the time. It reports whether more has passed than may pass between two rounds. The time before the first
// round is far in the past, so the first one is a jump too.
func (m *mark) advance(now time.Time, most time.Duration) (jumped bool) {
	passed := now.Sub(m.Time)
	jumped = passed > most
	switch {
	case jumped && len(m.Jumps) >= maxJumps:
		last := &m.Jumps[len(m.Jumps)-1]
		*last = jump{From: last.without()}
	case jumped:
		m.Jumps = append(m.Jumps, jump{From: m.Time})
	case passed > 0:
		for i := range m.Jumps {
			m.Jumps[i].Seen += passed
		}
		m.Jumps = slices.DeleteFunc(m.Jumps, func(j jump) bool { return j.Seen >= believedAfter })
	}
	m.Time = now
	return jumped
}

// without returns the time that it would be without the jump and all that came after it.
func (j jump) without() time.Time { return j.From.Add(j.Seen) }

// at returns the time for a rule: the earliest one that is possible if the jumps that it does not believe were wrong.
// What was used before a jump was not used while maxAge was seen to pass since, so a shorter rule believes it earlier.
func (m *mark) at(maxAge time.Duration) time.Time {
	now := m.Time
	for _, j := range m.Jumps {
		if j.Seen < maxAge && j.without().Before(now) {
			now = j.without()
		}
	}
	return now
}

// mark advances the mark in the bucket to the time of this round. With an error it returns one by which no session is
// old.
func (k *Keeper) mark(ctx context.Context, now time.Time) (*mark, error) {
	d, m := k.o.Deleter, &mark{}
	tail, err := d.last(ctx, keyMark, m.take)
	last := m.Time
	jumped := m.advance(now.UTC(), late+lateIntervals*k.o.Interval+k.took)
	var value []byte
	if err == nil {
		value, err = json.Marshal(m)
	}
	if err == nil {
		_, err = d.replace(ctx, keyMark, tail, nil, value)
	}
	if err != nil {
		return &mark{}, fmt.Errorf("store the time at key %q of bucket %s, so no session is deleted by age: %w", keyMark,
			schemas.BucketDeletions, err)
	}
	if jumped && !last.IsZero() {
		k.o.Logger.Warn("the clock has jumped ahead, or no keeper worked for so long: ages leave that out for a while, in "+
			"which a wrong clock has to be corrected", "jump", now.Sub(last).String(), "last", last, "now", now,
			"while", believedAfter.String())
	}
	return m, nil
}

// take takes over a mark that was read. It reports whether it is one; if the key was removed, there is none again.
func (m *mark) take(s natsio.Stored) bool {
	var next mark
	if s.Unreadable || codec.IsAnswer(s.Header, s.Data) {
		return false
	}
	if len(s.Data) > 0 && (json.Unmarshal(s.Data, &next) != nil || next.Time.IsZero()) {
		return false
	}
	*m = next
	return true
}
