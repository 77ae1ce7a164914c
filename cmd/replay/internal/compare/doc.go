// Package compare reads the conversations of sessions, the way from the root of the tree to the leaf, and says where
// two of them part. What counts is what was said and done: roles, texts, pictures, calls with their arguments, results
// and whether they are errors, how a reply failed. Ids, times, usage, models, and what a model thought do not.
package compare
