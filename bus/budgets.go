package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// HeaderIncr is the header of a message that adds to a counter. nats.go has no constant for it.
const HeaderIncr = "Nats-Incr"

// microdollars is the number of microdollars in a dollar. Costs are counted in them because counters are integers.
const microdollars = 1e6

// Budgets counts the tokens and the cost that profiles use. It uses the counters of the NATS server: stream AGENT_SPENT
// has one subject per profile, period and unit. Its methods may be called concurrently.
type Budgets struct{ conn *Conn }

// NewBudgets returns Budgets on c. The caller keeps ownership of c, which must outlive the Budgets.
func NewBudgets(c *Conn) *Budgets { return &Budgets{c} }

// Add adds a usage to the counters of every period. A usage that is added again with the same id within the stream's
// duplicate window counts once.
func (b *Budgets) Add(ctx context.Context, profile, id string, at time.Time, u schemas.Usage) error {
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	units := map[string]int64{schemas.SpentTokens: u.TotalTokens,
		schemas.SpentMicrodollars: int64(math.Round(u.Cost.Total * microdollars))}
	for _, per := range []schemas.BudgetPeriod{"", schemas.PerDay, schemas.PerMonth} {
		for unit, n := range units {
			if n == 0 {
				continue
			}
			msg := nats.NewMsg(b.conn.subjects.Spent(profile, per.Name(at), unit))
			msg.Header.Set(HeaderIncr, fmt.Sprintf("%+d", n))
			msg.Header.Set(jetstream.MsgIDHeader, id+"/"+per.Name(at)+"/"+unit)
			if _, err := b.conn.js.PublishMsg(ctx, msg, natsio.UntilLeader()); err != nil {
				return fmt.Errorf("bus: count %d %s of profile %s: %w", n, unit, profile, err)
			}
		}
	}
	return nil
}

// Spent returns the tokens and the US dollars that a profile has used in the period that contains at.
func (b *Budgets) Spent(ctx context.Context, profile string, per schemas.BudgetPeriod, at time.Time) (tokens int64,
	cost float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	tokens, err = b.counter(ctx, b.conn.subjects.Spent(profile, per.Name(at), schemas.SpentTokens))
	if err != nil {
		return 0, 0, err
	}
	micro, err := b.counter(ctx, b.conn.subjects.Spent(profile, per.Name(at), schemas.SpentMicrodollars))
	return tokens, float64(micro) / microdollars, err
}

// counter reads a counter. A counter to which nothing was added is 0. One that is larger than any budget, since model
// servers report what they want, counts as [schemas.MaxInteger].
func (b *Budgets) counter(ctx context.Context, subject string) (int64, error) {
	msg, found, err := natsio.Last(ctx, b.conn.js, schemas.StreamSpent, subject)
	if err == nil && !found {
		return 0, nil
	}
	var value struct {
		Val string `json:"val"`
	}
	if err == nil {
		err = json.Unmarshal(msg.Data, &value)
	}
	if err != nil {
		return 0, fmt.Errorf("bus: read counter %s: %w", subject, err)
	}
	n, ok := new(big.Int).SetString(value.Val, 10)
	if !ok {
		return 0, fmt.Errorf("bus: read counter %s: value %.40q is not an integer", subject, value.Val)
	}
	if largest := big.NewInt(schemas.MaxInteger); n.CmpAbs(largest) > 0 {
		return int64(n.Sign()) * schemas.MaxInteger, nil
	}
	return n.Int64(), nil
}
