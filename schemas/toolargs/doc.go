// Package toolargs holds the arguments of a tool call against the tool's JSON Schema and bends what a model got
// slightly wrong, as pi does (behaviour A4.3): "5" becomes 5 where an integer is wanted, null becomes "", and so on.
//
// What it says is part of the contract: a model reads the errors, and sessions recorded by pi are compared with ours
// word by word. So are the order of the lines, their paths, and the quoted arguments, which look as JavaScript's
// JSON.stringify(arguments, null, 2) would print them. A general validator finds the same violations but words,
// orders and groups them in its own way; the walk over schema and value is therefore this package's own.
//
// # Rules
//
//   - Scalars are coerced along type, properties, additionalProperties, items, allOf, anyOf and oneOf, nowhere else.
//     Nothing is wrapped in arrays, parsed out of text or filled in from default.
//   - In anyOf and oneOf the first member wins that fits after coercion. A member is judged on its own: a $ref in it
//     that points outside finds nothing. A list of types is only tried when the value is of none of them.
//   - A keyword whose value has the wrong type is ignored, as is an unknown keyword or type name. A pattern that
//     cannot be compiled makes the whole schema an error.
//   - Violations are reported in a fixed order of keywords, children before the complaint of their parent, and at most
//     eight of them.
//   - Strings are measured in Unicode code points, numbers are IEEE doubles.
//
// # Guarantees
//
// Validated arguments keep their members, the members' order and the literals of numbers, except what coercion had to
// change; arguments that needed no coercion are returned as the very same bytes. What Validate returns passes Validate
// again unchanged, unless a union is involved: by its rule [integer, boolean] makes "true" true, and true 1. A [Schema] is immutable and safe for concurrent use. Arguments are data from a model: none make it panic, and
// nesting is bounded.
package toolargs
