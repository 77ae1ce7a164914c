package reader_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// listening is the network of r1 beside r2, which keeps what r1 says.
type listening struct {
	beside
	unable  *atomic.Bool
	changes *atomic.Int32 // how often r1 has said something else
}

func listen(t *testing.T) listening {
	return listening{beside{t: t}, &atomic.Bool{}, &atomic.Int32{}}
}

func (l listening) Publish(data []byte) error {
	var said struct {
		ID     string `json:"id"`
		Unable bool   `json:"unable"`
	}
	if err := json.Unmarshal(data, &said); err != nil || said.ID != "r1" {
		l.t.Errorf("r1 says %s, %v", data, err)
	}
	if l.unable.Swap(said.Unable) != said.Unable {
		l.changes.Add(1)
	}
	return nil
}

// A runner whose consumers are refused says so, and it is not healthy: other runners read its share. It says that it is
// able once a consumer is created, and reads its share again.
func TestARunnerThatIsRefusedLeavesItsShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions = 16
		q, net := newQueue(), listen(t)
		r := run(t, partitions, net, q, &model{})
		first := <-q.created
		synctest.Wait()
		if net.unable.Load() || r.Health() != nil {
			t.Errorf("it reads %v and says unable: %t, health %v", first.Reads, net.unable.Load(), r.Health())
		}
		for round := range 2 {
			q.failures.Store(1 << 30)
			r.Break(nil, errors.New("lost"))
			time.Sleep(3 * time.Second)
			if net.unable.Load() || r.Health() != nil {
				t.Errorf("round %d: it gives up at once", round)
			}
			time.Sleep(5 * time.Second)
			if !net.unable.Load() || r.Health() == nil || r.Partitions() != nil {
				t.Errorf("round %d: unable: %t, health %v, reads %v", round, net.unable.Load(), r.Health(), r.Partitions())
			}
			q.failures.Store(0)
			select {
			case c := <-q.created:
				if len(c.Reads) == 0 || len(c.Reads) == partitions {
					t.Errorf("round %d: it reads %v", round, c.Reads)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("it does not read again")
			}
			synctest.Wait()
			if net.unable.Load() || r.Health() != nil {
				t.Errorf("round %d: it reads and says unable: %t, health %v", round, net.unable.Load(), r.Health())
			}
		}
	})
}

// choosy refuses consumers of more than one partition.
type choosy struct {
	*queue
	refused *atomic.Int32
}

func (q choosy) Create(ctx context.Context, c *reader.Consumer) (uint64, error) {
	if len(c.Reads) > 1 {
		q.refused.Add(1)
		return 0, errors.New("refused")
	}
	return q.queue.Create(ctx, c)
}

// A runner that can create a consumer, but not the one of its share, takes its share from the others less and less
// often.
func TestARunnerThatFailsAgainWaitsLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		net, q := listen(t), choosy{newQueue(), &atomic.Int32{}}
		r := run(t, 16, net, q, &model{})
		time.Sleep(10 * time.Minute)
		if n, said := q.refused.Load(), net.changes.Load(); n < 10 || n > 20 || said > 2*n || r.Health() == nil {
			t.Errorf("in ten minutes it was refused %d times, and said %d times that it can read, or cannot; health %v", n,
				said, r.Health())
		}
	})
}

// A runner beside others that cannot read either goes on trying to read its share of all.
func TestRunnersThatAreAllRefusedKeepTheirShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.failures.Store(100)
		r := run(t, 4, alone{}, q, &model{})
		c := <-q.created
		synctest.Wait()
		if len(c.Reads) != 4 || r.Health() != nil {
			t.Errorf("it reads %v, health %v", c.Reads, r.Health())
		}
	})
}
