//go:build race

package bash_test

// longOutput is less than a gigabyte: the race detector looks at every byte.
const longOutput = 64 << 20
