package grep

import "regexp/syntax"

// Limits of a pattern, which models write. Calls run at the same time, and nothing interrupts the compilation.
const (
	maxPattern = 4 << 10 // bytes, as written

	// maxRewritten is the largest size in bytes with \d, \s and \w written out as Unicode classes, each of which has
	// hundreds of ranges. The worst patterns of that size take some tens of MiB.
	maxRewritten = 16 << 10

	// maxInstructions is the largest number of instructions of a compiled pattern. Few bytes may ask for a million:
	// (a?){1000} for two thousand. The regexp package has memory of this size ready for a match.
	maxInstructions = 1 << 14
)

// instructions returns about how many instructions an expression is compiled to.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpConcat:
		return n
	case syntax.OpAlternate:
		return n + len(re.Sub) - 1
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		return n + 2
	case syntax.OpRepeat:
		if re.Max < 0 { // Min or more
			return n*max(re.Min, 1) + 2
		}
		return n*re.Max + re.Max - re.Min // each copy that may be left out takes one more
	default:
		return 1
	}
}
