//go:build race

package bash_test

// usualOutput is less with the race detector, which looks at every byte.
const usualOutput = 64 << 20
