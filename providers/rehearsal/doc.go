// Package rehearsal is a model that needs no key and no network. It follows rules instead of thinking, so that loopbus
// can be tried, tools and all, without any key.
//
// It looks at the last user message, line by line:
//
//	!COMMAND              calls bash
//	read PATH             calls read
//	ls [PATH]             calls ls
//	write PATH: TEXT      calls write; \n in TEXT is a line break
//	edit PATH: OLD => NEW calls edit
//	grep PATTERN [PATH]   calls grep
//	find PATTERN [PATH]   calls find
//	call TOOL {JSON}      calls any other tool, with these arguments
//
// Several such lines are several calls of one reply. A line whose tool the request does not offer is explained instead.
// When the transcript ends with tool results, the reply tells what came back, and the turn is over. Any other text gets
// a short answer that says what this is, and repeats nothing of what was said.
//
// The same request always gets the same reply; ids of calls come from their place in the transcript. Usage is an
// estimate of one token for four characters, images not counted, and costs nothing.
package rehearsal
