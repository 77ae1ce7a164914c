package edit

// maxDistance is the number of lines, taken away and added, up to which the shortest difference is looked for: the time
// that takes grows with its square.
const maxDistance = 2000

// A change takes the lines old[i:j] away and puts new[k:l] in their place.
type change struct{ i, j, k, l int }

// difference returns what has to be changed to make new out of old, in order. It is the shortest there is, found
// greedily from the start, deletions before insertions: which of several shortest ones that gives is part of the
// recorded behaviour. If too much differs it is one change of everything but what both begin and end with.
func difference(old, new []string) []change {
	start := 0
	for start < len(old) && start < len(new) && old[start] == new[start] {
		start++
	}
	steps := shortest(old[start:], new[start:])
	if steps == nil {
		end := 0
		for end < len(old)-start && end < len(new)-start && old[len(old)-1-end] == new[len(new)-1-end] {
			end++
		}
		return []change{{start, len(old) - end, start, len(new) - end}}
	}
	return collect(steps, start)
}

// A frontier is, for a number d of lines taken away and added, how far into old each diagonal k = x-y from -d to d
// gets.
type frontier []int

func (f frontier) at(k int) int { return f[len(f)/2+k] }

// down reports whether the best way with d steps to diagonal k ends with an insertion.
func (f frontier) down(k, d int) bool { return k == -d || k != d && f.at(k-1) < f.at(k+1) }

// shortest returns the frontiers of all steps up to the one that reaches both ends, nil if that is too far away.
func shortest(old, new []string) (steps []point) {
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
			for x < len(old) && x-k < len(new) && old[x] == new[x-k] {
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

// A point is a place before old[x] and new[y].
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

// collect joins steps that follow each other without a line between them that stays.
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
