//go:build race

package tools_test

// dirs is less than without the race detector, which makes every file cost ten times as much.
const dirs = 50
