// Package host drives any number of sessions, each from its log, as the messages of an inbox are delivered. It is the
// core of a runner.
//
// A [Host] loads a session when a message for it is delivered, and evicts it when it has been at rest for a while. A
// loaded session is a cache of its log: every delivery ends with a check that the log has not been extended by another
// process. A host whose state is behind the log loads the session again, and a host that has lost the session to
// another process stops without another effect (package driver).
package host
