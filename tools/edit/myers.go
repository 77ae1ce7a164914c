package edit

import "bytes"

// maxDistance limits the search for the shortest difference to this number of deleted and added lines: the time of the
// search grows with its square.
const maxDistance = 2000

// A change replaces the lines old[i:j] by new[k:l].
type change struct{ i, j, k, l int }

// difference returns the changes that turn old into new, in order. They are the shortest possible, found greedily from
// the start, deletions before insertions: the choice among several shortest ones is part of the recorded behaviour. If
// the distance exceeds maxDistance, it returns one change of everything between the common start and the common end.
func difference(old, new [][]byte) []change {
	start := 0
	for start < len(old) && start < len(new) && bytes.Equal(old[start], new[start]) {
		start++
	}
	steps := shortest(old[start:], new[start:])
	if steps == nil {
		end := 0
		for end < len(old)-start && end < len(new)-start && bytes.Equal(old[len(old)-1-end], new[len(new)-1-end]) {
			end++
		}
		return []change{{start, len(old) - end, start, len(new) - end}}
	}
	return collect(steps, start)
}

// A frontier contains, for a number d of deleted and added lines, the furthest x reached on each diagonal k = x-y from
// -d to d.
type frontier []int

func (f frontier) at(k int) int { return f[len(f)/2+k] }

// down reports whether the furthest path with d steps to diagonal k ends with an insertion.
func (f frontier) down(k, d int) bool { return k == -d || k != d && f.at(k-1) < f.at(k+1) }

// shortest returns the frontiers of all steps up to the one that reaches both ends, nil if that exceeds maxDistance.
func shortest(old, new [][]byte) (steps []point) {
	trace := []frontier{{0, 0, 0}} // as if an insertion had led to the origin
	for d := 0; d <= maxDistance; d++ {
		before, now := trace[d], make(frontier, 2*d+3)
		for k := -d; k <= d; k += 2 {
			x := 0
			switch {
			case d == 0:
			case before.down(k, d):
				x = before.at(k + 1)
			default:
				x = before.at(k-1) + 1
			}
			for x < len(old) && x-k < len(new) && bytes.Equal(old[x], new[x-k]) {
				x++
			}
			now[len(now)/2+k] = x
			if x >= len(old) && x-k >= len(new) {
				return backtrack(trace, len(old), len(new))
			}
		}
		trace = append(trace, now)
	}
	return nil
}

// A point is the position before old[x] and new[y].
type point struct{ x, y int }

// backtrack returns the points before and after each step, from the origin to the ends, in order.
func backtrack(trace []frontier, x, y int) []point {
	steps := make([]point, 0, 2*len(trace))
	for d := len(trace) - 1; d > 0; d-- {
		k, from := x-y, point{}
		if trace[d].down(k, d) {
			from.x = trace[d].at(k + 1)
			from.y = from.x - k - 1
			x, y = from.x, from.y+1
		} else {
			from.x = trace[d].at(k - 1)
			from.y = from.x - k + 1
			x, y = from.x+1, from.y
		}
		steps = append(steps, point{x, y}, from)
		x, y = from.x, from.y
	}
	for i, j := 0, len(steps)-1; i < j; i, j = i+1, j-1 {
		steps[i], steps[j] = steps[j], steps[i]
	}
	return steps
}

// collect joins consecutive steps that have no unchanged line between them.
func collect(steps []point, start int) (changes []change) {
	for s := 0; s < len(steps); s += 2 {
		from, to := steps[s], steps[s+1]
		if n := len(changes); n > 0 && changes[n-1].j == from.x+start && changes[n-1].l == from.y+start {
			changes[n-1].j, changes[n-1].l = to.x+start, to.y+start
			continue
		}
		changes = append(changes, change{from.x + start, to.x + start, from.y + start, to.y + start})
	}
	return changes
}
