// Package rehearsal is a model that needs no key and no network. It follows rules instead of thinking, so that
// loopbus with its tools can be tried without a key.
//
// It reads the last user message line by line:
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
// Several such lines become several calls of one reply. For a tool that the request does not offer, the reply
// explains this. If the transcript ends with tool results, the reply summarizes them and the turn ends. Any other
// text gets a short answer that explains the model; it never repeats the input.
//
// The same request always gets the same reply; ids of calls are derived from their position in the transcript. Usage
// is estimated as one token per four characters, without images, and costs nothing.
package rehearsal
