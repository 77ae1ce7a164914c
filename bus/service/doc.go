// Package service answers requests as a NATS micro service, which nats micro ls, info and stats show.
//
// It implements the protocol of nats.go's package micro, with that package's types, with one difference: it answers
// only to inboxes, and to requests from other accounts ([schemas.MayAnswer]). NATS checks who may publish to a
// subject, but not which reply subject a request names. A service with wide permissions, such as a runner, would
// otherwise publish its answer to any subject that a client names, such as another session's inbox, where the answer
// to $SRV.PING, a JSON object with an id, could be taken for a command.
package service
