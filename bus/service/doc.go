// Package service answers requests as a NATS micro service: what it serves is shown by nats micro ls, info and stats.
//
// It speaks the protocol of the package micro of nats.go, with that package's types, and differs in one thing: it
// answers inboxes only, and requests of other accounts ([schemas.MayAnswer]). NATS checks who may publish to a subject,
// not whom a request names for the reply. A service that may publish everywhere, as a runner may, would otherwise
// publish its answer wherever a client wishes: into another session's inbox, where the answer to $SRV.PING, an object
// with an id, may be taken for a command.
package service
