package reader

import "slices"

// share returns the partitions that self reads when runners are the live ones. Every runner computes the same division
// from the same list, in whatever order it has it.
//
// It is rendezvous hashing with bounded loads: a partition goes to the runner with the highest score for it that has
// room, and nobody has room for more than five quarters of the mean, rounded up. So a runner that comes or goes moves
// about its own share and little else.
func share(partitions int, runners []string, self string) []int {
	var mine []int
	for p, owner := range divide(partitions, runners) {
		if owner == self {
			mine = append(mine, p)
		}
	}
	return mine
}

// divide returns the owner of each partition; no owners without runners.
func divide(partitions int, runners []string) []string {
	if len(runners) == 0 {
		return nil
	}
	ids := slices.Clone(runners)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	room := make([]int, len(ids))
	for i := range room {
		room[i] = maxShare(partitions, len(ids))
	}
	owners := make([]string, partitions)
	for p := range owners {
		best, bestScore := -1, uint64(0)
		for i, id := range ids {
			if score := rendezvousScore(id, p); room[i] > 0 && (best < 0 || score > bestScore) {
				best, bestScore = i, score
			}
		}
		room[best]--
		owners[p] = ids[best]
	}
	return owners
}

// maxShare is the most that one of n runners reads.
func maxShare(partitions, n int) int { return (5*partitions + 4*n - 1) / (4 * n) }

// rendezvousScore is FNV-1a over the runner's id and the partition, and a finalizer, because FNV alone leaves the high
// bits of similar ids alike. Runners of different builds have to agree on it: it never changes.
func rendezvousScore(id string, partition int) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * prime
	}
	h = (h ^ uint64(partition&0xff)) * prime
	h = (h ^ uint64(partition>>8)) * prime
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
