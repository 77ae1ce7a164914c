//go:build !race

package toolargs_test

// slowdown is how much slower the race detector makes everything.
const slowdown = 1
