// Package pifile writes a session's log as pi's session file, version 3, and makes a log from such a file, of versions
// 1 to 3.
//
// # Export
//
// Each node of the session's tree is an entry of the same kind. Labels, names, and changes of the model and the
// thinking level are entries on the way, as in pi. The last entry of a file is its leaf; where the session's is another
// one, an entry of type custom with the customType "loopbus.leaf" is put there.
//
// # Import
//
// The lines are kept as they are in events custom with the customType "loopbus.file", so that an export gives every one
// of them back, with members that loopbus does not know. The context of each leaf is a transcript_replaced, that of the
// session's leaf the last; the model and the thinking level of the leaf follow as the commands that set them, then
// labels and name. What is added to the session later is exported behind the lines,
// below the entries that it continues.
package pifile
