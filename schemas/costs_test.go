package schemas

import (
	"math"
	"testing"
)

// What whoever serves a model says of a reply can be added up, counted in millionths and written as JSON, as often as a
// session has replies.
func TestUsagesAddUp(t *testing.T) {
	t.Parallel()
	for _, cost := range []float64{math.Inf(1), math.NaN(), 1.7e308, -1, 1e9} {
		most := Usage{Input: math.MaxInt64, TotalTokens: math.MaxInt64, Cost: Cost{Input: cost, Output: cost, Total: cost}}
		u := most.Clamped()
		sum := Usage{}
		for range 10_000 {
			sum = sum.Add(u)
		}
		if sum.TotalTokens != MaxInteger || !(sum.Cost.Total >= 0 && sum.Cost.Total <= 1e13) ||
			!(u.Cost.Total*1e6 < math.MaxInt64) {
			t.Errorf("a cost of %v: %+v, ten thousand times %+v", cost, u, sum)
		}
		if _, err := Marshal(sum); err != nil {
			t.Errorf("a cost of %v: %v", cost, err)
		}
	}
}

// The replies of a forged log may have any usage; the sum can still be written as JSON.
func TestUsagesOfForgedLogsAddUp(t *testing.T) {
	t.Parallel()
	for _, cost := range []float64{math.MaxFloat64, -math.MaxFloat64} {
		u := Usage{Cost: Cost{Input: cost, Output: cost, CacheRead: cost, CacheWrite: cost, Total: cost}}
		sum := u.Add(u).Add(u)
		if _, err := Marshal(sum); err != nil || sum != u {
			t.Errorf("three times a cost of %v is %+v: %v", cost, sum.Cost, err)
		}
	}
}
