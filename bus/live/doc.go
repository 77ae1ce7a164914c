// Package live publishes the updates of sessions, joined to few messages, and lets viewers watch them from any moment
// on.
package live
