package process

import (
	"flag"
	"strconv"
)

// TestsAtOnce lets n parallel tests run at once, unless -parallel says otherwise: those that have processes wait most
// of the time until something is noticed, and leave the processor to others. It belongs into TestMain and parses the
// flags.
func TestsAtOnce(n int) error {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return nil
	}
	return flag.Set("test.parallel", strconv.Itoa(n))
}
