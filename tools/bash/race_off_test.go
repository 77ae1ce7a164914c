//go:build !race

package bash_test

// longOutput is how many bytes a command may write without any memory growing by it.
const longOutput = 1 << 30
