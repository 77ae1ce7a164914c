// Package permissions defines what each role of a deployment may publish and subscribe to, and renders it as
// configuration of a NATS server: as users of one account, or as separate accounts for untrusted roles. It makes no
// connection and links no server.
//
// # One account or several
//
// Within one account, NATS checks permissions against the subject of a publish and not against its reply subject. So
// a client can direct an answer of the server to any subject of the account, and thereby delete streams
// (docs/security.md). The roles that can do this are marked as trusted. A separate account prevents it: its
// permissions are imports, one per subject, and replies stay in the account of the request. Roles that create
// JetStream consumers cannot be rendered as accounts, because a consumer delivers, in the account of the streams, to
// any subject that its creator chooses.
package permissions
