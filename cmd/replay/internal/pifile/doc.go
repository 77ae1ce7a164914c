// Package pifile exports a session's log as pi's session file, version 3, and imports such files of versions 1 to 3.
//
// # Export
//
// Each node of the session's tree becomes an entry of the same type. Labels, names, and changes of the model and the
// thinking level are entries on the path, as in pi. The last entry of a file is its leaf; if the session's leaf is
// another entry, an entry of type custom with the customType "loopbus.leaf" is appended below that one.
//
// # Import
//
// The lines are kept unchanged in events custom with the customType "loopbus.file", so that an export returns every
// line with all members, including those that loopbus does not know. The context of each leaf becomes a
// transcript_replaced, that of the session's leaf the last one. The model and the thinking level of the leaf follow as
// the commands that set them, then labels and name. Entries that are added to the session later are exported after the
// lines, below the entries that they continue.
package pifile
