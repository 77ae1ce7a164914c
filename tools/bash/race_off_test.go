//go:build !race

package bash_test

// usualOutput is the default of -output.bytes.
const usualOutput = 256 << 20
