// Package sessionfile reads and writes pi's session files, versions 1 to 3, and does with the tree in them what pi
// does: paths, the context of a leaf, labels, branches, copies.
//
// A file is one JSON object a line: a header, then entries. Each entry names its parent; the entries form a tree, and
// the way from a root to the leaf is what a model is shown. Entries keep the members that this package does not know,
// byte for byte and in order.
//
// A [Session] is one such tree, in memory or with its file. Nothing is written before there is an assistant's message;
// then every entry is appended as it is made, and an entry that could not be written is not in the session either. A
// Session is not safe for concurrent use, and two of them must not have one file.
//
// # Where this package differs from pi 0.73.1
//
// The rules are pi's, and recorded cases hold them (TestSessionCases). Where pi loses or destroys something, this
// package does not:
//
//   - A file that holds something but no session is refused ([ErrNoSession]) and stays as it is.
//   - A file without a newline at its end gets one before the next entry.
//   - Lines that are no entries are left out and reported, the line null too.
//   - Parents that go round in a circle end at the circle's first entry in the file, which counts as a root.
//   - Two entries with one id are one node of the tree, the later one.
//   - [Session.Extract] hangs the children of a label that it takes out on the label's parent.
package sessionfile
