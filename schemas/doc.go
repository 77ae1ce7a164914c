// Package schemas is the vocabulary and the wire contract of loopbus: messages, events, commands, tool calls and
// updates as Go types, the grammar of their subjects, and the header names and version of their CloudEvents.
//
// Everything that crosses a process boundary is declared in this package and nowhere else. A program in another
// language therefore needs only the JSON Schemas of this package (folder jsonschema) and docs/protocol.md.
//
// Values are plain data. A value that is passed to another package belongs to its receiver. Slices and raw JSON in it
// are shared, not copied, and nobody may change them afterwards. Values may be read concurrently, but not changed
// concurrently.
//
// Input from outside is validated by its schema before it is used: commands by [ParseCommand] and [PlainText],
// everything else by the Validate functions. The schemas are compiled when the first one is needed, which takes some 10
// ms. A process for which that is too long validates something at its start.
//
// Readers ignore members that they do not know and refuse types that they do not know (see [UnknownTypeError]).
package schemas
