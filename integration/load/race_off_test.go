//go:build unix && !race

package load_test

// bigBatch is how many calls the greedy session makes in one reply.
const bigBatch = 1000
