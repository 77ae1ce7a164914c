package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
)

// outputOptions configure where outputs of commands that are too long to return are kept.
type outputOptions struct {
	Dir   string        `name:"bash-output-dir" placeholder:"DIR" help:"Keep outputs that are too long to return here."`
	Size  string        `name:"bash-output-size" default:"256M" help:"Limit the size of one kept output."`
	Total string        `name:"bash-output-total" default:"4G" help:"Limit the size of all kept outputs together."`
	Age   time.Duration `name:"bash-output-age" default:"${outputAge}" help:"Remove kept outputs after this long."`

	kept toolserve.Outputs // the parsed settings
}

// Check parses the sizes.
func (o *outputOptions) Check(*cli.Call) []error {
	size, sizeErr := parseBytes(o.Size)
	total, totalErr := parseBytes(o.Total)
	var errs []error
	switch {
	case sizeErr != nil || totalErr != nil:
		if sizeErr != nil {
			errs = append(errs, fmt.Errorf("--bash-output-size: %w", sizeErr))
		}
		if totalErr != nil {
			errs = append(errs, fmt.Errorf("--bash-output-total: %w", totalErr))
		}
	case size > total:
		errs = append(errs, fmt.Errorf("--bash-output-size: %s of one output is more than %s of all together "+
			"(--bash-output-total)", o.Size, o.Total))
	}
	if o.Age <= 0 {
		errs = append(errs, errors.New("--bash-output-age: must be greater than 0"))
	}
	o.kept = toolserve.Outputs{Dir: o.Dir, Size: size, Total: total, Age: o.Age}
	return errs
}
