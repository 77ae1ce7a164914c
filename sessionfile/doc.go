// Package sessionfile reads and writes pi's session files, versions 1 to 3, and implements pi's operations on the tree
// in them: paths, the context of a leaf, labels, branches, copies.
//
// A file has one JSON object per line: a header, then entries. Each entry names its parent, so the entries form a tree.
// A model gets the path from a root to the leaf. Entries keep members that this package does not know, byte for byte
// and in order.
//
// A [Session] is one such tree, in memory or with its file. Nothing is written before the first assistant's message.
// From then on every entry is appended when it is made, and an entry that could not be written is not in the session
// either. A Session is not safe for concurrent use, and two Sessions must not use one file.
//
// # Differences from pi 0.73.1
//
// The rules are pi's, and recorded cases test them (TestSessionCases). Where pi loses or destroys data, this package
// does not:
//
//   - A file that is not empty and has no session is refused ([ErrNoSession]) and not changed.
//   - A file without a newline at its end gets one before the next entry.
//   - Lines that are not entries are skipped and reported, also the line null.
//   - A cycle of parents ends at its first entry in the file, which counts as a root.
//   - Two entries with one id are one node of the tree, the later one.
//   - [Session.Extract] moves the children of a label that it removes to the label's parent.
package sessionfile
