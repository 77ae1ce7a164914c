//go:build unix && race

package load_test

// bigBatch is fewer with the race detector, which makes everything ten times slower.
const bigBatch = 200
