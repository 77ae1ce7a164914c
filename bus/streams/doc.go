// Package streams creates the streams and buckets that docs/architecture.md names, brings those of an earlier version
// up to date, and describes the durability of acknowledged messages.
package streams
