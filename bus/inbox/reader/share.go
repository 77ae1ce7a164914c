package reader

// assign returns the owner of each partition. Every runner computes the same owners from the same runners, in whatever
// order. There has to be at least one, and each only once.
//
// It is rendezvous hashing with bounded loads: a partition goes to the runner with the highest score for it that has
// room. A runner has room for five quarters of the mean, rounded up. So when a runner comes or goes, about its own
// share moves and little else.
func assign(partitions int, runners []string) []string {
	room := make([]int, len(runners))
	for i := range room {
		room[i] = maxShare(partitions, len(runners))
	}
	owners := make([]string, partitions)
	for p := range owners {
		best, bestScore := -1, uint64(0)
		for i, id := range runners {
			if score := rendezvousScore(id, p); room[i] > 0 && (best < 0 || score > bestScore) {
				best, bestScore = i, score
			}
		}
		room[best]--
		owners[p] = runners[best]
	}
	return owners
}

// maxShare is the most partitions that one of n runners owns.
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
