package bustest

import (
	"flag"
	"strconv"
)

// atOnce is how many parallel tests of a package run at once. They wait most of the time.
const atOnce = 8

// TestsAtOnce lets n parallel tests run at once, unless -parallel says otherwise. It belongs into TestMain, of tests that
// wait most of the time and leave the processor to others, and parses the flags.
func TestsAtOnce(n int) error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}
