// Package atonce sets how many tests of a package run in parallel. It does not import the bus, so that tests without a
// bus do not link it.
package atonce

import (
	"flag"
	"strconv"
)

// Usual is the number of parallel tests for packages whose tests wait most of the time.
const Usual = 8

// Tests sets the number of parallel tests to n, unless -parallel is set. It parses the flags. Call it in TestMain of
// packages whose tests wait most of the time and need little processor time.
func Tests(n int) {
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
