package schemas

import "math"

// Usage counts the tokens of one reply, and what they cost.
type Usage struct {
	Input       int64 `json:"input"`
	Output      int64 `json:"output"`
	CacheRead   int64 `json:"cacheRead"`
	CacheWrite  int64 `json:"cacheWrite"`
	TotalTokens int64 `json:"totalTokens"`
	Cost        Cost  `json:"cost"`
}

// Cost is money in US dollars, by class of token.
type Cost struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead"`
	CacheWrite float64 `json:"cacheWrite"`
	Total      float64 `json:"total"`
}

// maxCost is the largest cost of one reply, in US dollars: budgets can count it, and no session has so many replies
// that the sum overflows.
const maxCost = 1e9

// Clamped returns the usage with impossible counts, below zero or beyond what JSON readers keep exactly, set to the
// nearest possible one. Costs are from zero to a billion.
func (u Usage) Clamped() Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite, &u.TotalTokens} {
		*n = min(max(*n, 0), MaxInteger)
	}
	for _, c := range []*float64{&u.Cost.Input, &u.Cost.Output, &u.Cost.CacheRead, &u.Cost.CacheWrite, &u.Cost.Total} {
		if *c = min(max(*c, 0), maxCost); *c != *c { // not a number
			*c = 0
		}
	}
	return u
}

// Add returns the sum of both. Counts do not go beyond what JSON readers keep exactly, nor costs beyond what JSON has.
func (u Usage) Add(v Usage) Usage {
	u.Input = min(u.Input+v.Input, MaxInteger)
	u.Output = min(u.Output+v.Output, MaxInteger)
	u.CacheRead = min(u.CacheRead+v.CacheRead, MaxInteger)
	u.CacheWrite = min(u.CacheWrite+v.CacheWrite, MaxInteger)
	u.TotalTokens = min(u.TotalTokens+v.TotalTokens, MaxInteger)
	u.Cost.Input = finite(u.Cost.Input + v.Cost.Input)
	u.Cost.Output = finite(u.Cost.Output + v.Cost.Output)
	u.Cost.CacheRead = finite(u.Cost.CacheRead + v.Cost.CacheRead)
	u.Cost.CacheWrite = finite(u.Cost.CacheWrite + v.Cost.CacheWrite)
	u.Cost.Total = finite(u.Cost.Total + v.Cost.Total)
	return u
}

// finite returns the finite number that is next to a sum of two.
func finite(sum float64) float64 {
	return min(max(sum, -math.MaxFloat64), math.MaxFloat64)
}
