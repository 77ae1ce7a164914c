// Package schemas is the vocabulary and the wire contract of loopbus: messages, events, commands, tool calls and
// updates as Go types, the grammar of their subjects, and the header names and version of their CloudEvents.
//
// Everything that crosses a process boundary is declared here and nowhere else, so a program in another language needs
// nothing but this package's JSON Schemas (folder jsonschema) and docs/protocol.md.
//
// Values are plain data. A value handed to another package belongs to its receiver; slices and raw JSON in it are
// shared, never copied, and must not be changed by anybody afterwards. Nothing here is safe for concurrent mutation,
// everything is safe for concurrent reading.
//
// What comes from outside is validated by its schema before it is used: commands by [ParseCommand] and [PlainText], the
// rest by the Validate functions. The schemas are compiled once, when the first is needed (some 10 ms); a process that
// cannot wait then validates something when it starts.
//
// Readers ignore members they do not know and refuse types they do not know (see [UnknownTypeError]).
package schemas
