package reader_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// beside is the network of r1 beside r2, which says that it reads nothing.
type beside struct {
	alone
	t *testing.T
}

func (b beside) Join(receive func([]byte)) (leave func(), err error) {
	data, err := json.Marshal(map[string]any{"id": "r2"})
	if err != nil {
		b.t.Error(err)
	}
	receive(data)
	var beats sync.WaitGroup
	stop, tick := make(chan struct{}), time.NewTicker(100*time.Millisecond)
	beats.Go(func() {
		for {
			select {
			case <-tick.C:
				receive(data)
			case <-stop:
				return
			}
		}
	})
	return func() { close(stop); beats.Wait() }, nil
}

// taken is a queue whose partitions other consumers have.
type taken struct {
	*queue
	mu      sync.Mutex
	there   map[string]func() ([]int, error) // the other consumers, and what Reads returns for them
	deleted []string
}

func (q *taken) Create(_ context.Context, c *reader.Consumer) (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, reads := range q.there {
		has, err := reads()
		if err != nil || slices.ContainsFunc(has, func(n int) bool { return slices.Contains(c.Reads, n) }) {
			return 0, reader.ErrOverlap
		}
	}
	return 0, nil
}

func (q *taken) Names(context.Context) (names []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name := range q.there {
		names = append(names, name)
	}
	return names, nil
}

func (q *taken) Reads(_ context.Context, name string) ([]int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if reads := q.there[name]; reads != nil {
		return reads()
	}
	return nil, reader.ErrConsumerNotFound
}

func (q *taken) Delete(_ context.Context, name string) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.there[name] == nil {
		return false, nil
	}
	delete(q.there, name)
	q.deleted = append(q.deleted, name)
	return true, nil
}

// TestConsumersThatNobodyReadsAreDeleted has consumers of a live runner keep the partitions of this one, although the
// live runner does not say that it reads them. A consumer that has other partitions stays.
func TestConsumersThatNobodyReadsAreDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const partitions = 16
		var own []int
		for n := range partitions {
			own = append(own, n)
		}
		q := &taken{queue: newQueue(), there: map[string]func() ([]int, error){
			"r2_late":    func() ([]int, error) { return own, nil },
			"r2_leader":  func() ([]int, error) { return nil, errors.New("the consumer has no leader") },
			"r2_current": func() ([]int, error) { return []int{partitions}, nil },
		}}
		begun := time.Now()
		run(t, partitions, beside{t: t}, q, &model{})
		c := <-q.created
		if took := time.Since(begun); took < time.Second || took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if len(c.Reads) == 0 || len(c.Reads) == partitions {
			t.Errorf("it reads %v", c.Reads)
		}
		if slices.Sort(q.deleted); !slices.Equal(q.deleted, []string{"r2_late", "r2_leader"}) {
			t.Errorf("deleted %v", q.deleted)
		}
	})
}
