//go:build !race

package tools_test

// dirs is how many directories of a hundred files are searched.
const dirs = 1000
