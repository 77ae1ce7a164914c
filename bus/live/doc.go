// Package live publishes the updates of sessions, joined to few messages. Package client follows them.
package live
