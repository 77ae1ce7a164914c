//go:build unix && !race

package load_test

// bigBatch is the number of calls that the greedy session makes in one reply.
const bigBatch = 1000
