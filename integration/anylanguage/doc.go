// Package anylanguage holds the examples of docs/examples, tools in several languages written from
// docs/tool-protocol.md, against a real runner: all are processes of their own.
package anylanguage
