// Package sweep removes stray messages from the streams: messages that no client wrote on purpose.
//
// A NATS server checks the permission for the subject of a publish, but not for its reply subject. Any client that may
// publish at all can therefore have the server store its answers in any stream of the account. Readers recognise such
// answers, but they fill streams with a limit, and a full stream refuses messages of all clients. The runner of the
// first partition of the inbox checks each new message once, and removes those that are not a call, a timer or an entry
// of a bucket. The inbox has a sweep of its own, which stores what it removes as dead letters. Package registry tidies
// the profiles. Logs are not swept.
package sweep
