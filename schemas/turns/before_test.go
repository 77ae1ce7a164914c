package turns

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
)

// crowd are users of one key whose turns a test sees.
type crowd struct {
	t     *testing.T
	turns *Turns[string]
	got   []int
	done  map[int]func()
}

// wait has somebody wait, until synctest sees that nothing goes on.
func (c *crowd) wait(ctx context.Context, n, units int) {
	go func() {
		release, err := c.turns.Wait(ctx, "a", units)
		if err != nil {
			return
		}
		c.got = append(c.got, n)
		c.done[n] = release
	}()
	synctest.Wait()
}

// want checks who had its turn since the last call.
func (c *crowd) want(what string, want ...int) {
	c.t.Helper()
	synctest.Wait()
	if fmt.Sprint(c.got) != fmt.Sprint(want) {
		c.t.Errorf("%s: turns of %v, want %v", what, c.got, want)
	}
	c.got = nil
}

func (c *crowd) end(numbers ...int) {
	for _, n := range numbers {
		c.done[n]()
	}
	synctest.Wait()
}

func newCrowd(t *testing.T, limit int) *crowd {
	return &crowd{t: t, turns: New[string](limit), done: map[int]func(){}}
}

// Who needs little takes what is too little for the one whose turn it is, any number of times, and that one waits for
// none of them.
func TestTurnsOutOfTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 100)
		for n := range 4 {
			c.wait(t.Context(), n, 30)
		}
		c.want("a crowd", 0, 1, 2)
		for n := 10; n < 20; n++ {
			c.wait(t.Context(), n, 6)
			c.want("behind the crowd", n)
			c.wait(t.Context(), 99, 6)
			c.want("too little for another")
			c.end(n)
			c.want("once there is", 99)
			c.end(99)
		}
		c.wait(t.Context(), 20, 6)
		c.want("little", 20)
		c.end(0)
		c.want("what the crowd gives back is for the one whose turn it is", 3)
		c.end(1, 2, 3, 20)
		if c.want("nobody else"); !c.turns.Idle() {
			t.Error("units were not given back")
		}
	})
}

// However many come later and are served before somebody, that one is served when those have ended who came first.
func TestTurnsStarveNobody(t *testing.T) {
	t.Parallel()
	for large, before := range map[int][]int{
		90: {100}, // there is enough for both
		95: nil,   // whoever goes before the large one would keep it waiting
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrowd(t, 100)
			for n := range 10 {
				c.wait(t.Context(), n, 9)
			}
			c.want("small ones", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
			c.wait(t.Context(), 50, large)
			c.want("a large one waits")
			for n := range 10 {
				c.end(n)
				c.wait(t.Context(), 100+n, 9)
				switch n {
				case 0:
					c.want("the first that comes later", before...)
				case 9:
					c.want("the large one, once those have ended who came first", 50)
				default:
					c.want("others that come later")
				}
			}
		})
	}
}

// Who has units already takes more of them before all who wait, and who leaves takes its turn along.
func TestTurnsForMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 10)
		c.wait(t.Context(), 0, 6)
		leaving, leave := context.WithCancel(t.Context())
		c.wait(leaving, 1, 9)
		c.wait(t.Context(), 2, 5)
		c.want("the first", 0)
		more, ok := c.turns.Take("a", 4)
		if !ok {
			t.Fatal("no more units for who has some")
		}
		if _, ok := c.turns.Take("a", 1); ok {
			t.Error("more units than there are")
		}
		more()
		more()
		c.want("they are given back")
		leave()
		c.want("there is too little for the next")
		c.end(0)
		c.want("the next", 2)
		c.end(2)
		if _, ok := c.turns.Take("b", 11); ok || !c.turns.Idle() {
			t.Error("something is kept of who has nothing")
		}
	})
}
