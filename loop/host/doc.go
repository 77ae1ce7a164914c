// Package host drives any number of sessions, each from its log, as the messages of an inbox are delivered: this is
// what a runner is made of.
//
// A [Host] loads a session when a message for it is delivered, and evicts it when it has been at rest for a while. What
// a session believes of itself is checked by its log: a host that is behind it loads the session anew, and one that has
// lost the session to another process stops without another effect (package driver).
package host
