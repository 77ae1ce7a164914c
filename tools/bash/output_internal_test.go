package bash

import (
	"bytes"
	"testing"
	"time"
)

// However much a command writes, what is in memory does not grow.
func TestOutputIsHeldInConstantMemory(t *testing.T) {
	o := newOutput(newAttic(Options{TempDir: t.TempDir(), SpillBytes: 1 << 30, SpillTotal: 1 << 40,
		SpillAge: time.Hour}))
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 2048)
	write := func(times int) {
		for range times {
			if _, err := o.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(8)
	if grown := testing.AllocsPerRun(10, func() { write(32) }); grown > 0 {
		t.Errorf("%v allocations per mebibyte", grown)
	}
	o.finish()
	if now := o.snapshot(); now.lost != nil || now.cut.TotalBytes != int64(8+11*32)*int64(len(chunk)) {
		t.Errorf("%d bytes, %v", now.cut.TotalBytes, now.lost)
	}
}
