// Package live publishes the updates of sessions, joined to few messages. Viewers watch them by bus/client.
package live
