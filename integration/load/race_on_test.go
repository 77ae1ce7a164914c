//go:build unix && race

package load_test

// bigBatch is smaller with the race detector, which makes the test ten times slower.
const bigBatch = 200
