// Package permissions says what each role of a deployment may publish and subscribe to, and renders it as configuration
// of a NATS server: users of one account, or accounts of their own for untrusted roles. It is data and text: it
// connects to nothing and links no server.
//
// # One account or several
//
// In one account, permissions are checked on the subject of a publish and not on its reply: a client can have the
// server answer anywhere in the account, and so delete its streams (docs/security.md). The roles that can are marked
// as trusted. An account of its own closes that: what it is given are imports, one for each subject, and a reply stays
// in the account it came from. Roles that make consumers of JetStream are not offered as accounts: a consumer delivers
// wherever its maker says, in the account of the streams.
package permissions
