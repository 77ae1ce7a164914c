// Package streams makes the streams and buckets that docs/architecture.md names, brings those of an earlier version up
// to date, and says what an acknowledgement is worth.
package streams
