// Package compare reads the conversations of sessions, the path from the root of the tree to the leaf, and finds where
// two of them diverge. It compares what was said and done: roles, texts, pictures, calls with their arguments, results
// and whether they are errors, and how a reply failed. It ignores ids, times, usage, models and thinking.
package compare
