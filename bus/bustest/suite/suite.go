// Package suite has what the tests of all packages share: how many run in parallel, and which the default suite leaves
// out. It does not import the bus, so that tests without a bus do not link it.
package suite

import (
	"flag"
	"strconv"
	"testing"
)

// Usual is the number of parallel tests for packages whose tests wait most of the time.
const Usual = 8

var all = flag.Bool("all", false, "run the tests that the default suite leaves out, too")

// Parallel sets the number of parallel tests to n, unless -parallel is set. It parses the flags. Call it in TestMain of
// packages whose tests wait most of the time and need little processor time.
func Parallel(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // every test binary has the flag
	}
}

// LongForm skips a test that the default suite leaves out because it costs much and is rarely the first to fail, unless
// -all is set. Every change runs it in .ci/run, which finds it by the name of this function.
func LongForm(t testing.TB) {
	t.Helper()
	if !*all {
		t.Skip("not in the default suite: set -all, as .ci/run does")
	}
}
