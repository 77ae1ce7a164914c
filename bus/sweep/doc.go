// Package sweep takes out of the streams what nobody has written on purpose.
//
// A NATS server checks the subject of a publish and not its reply, so whoever may publish anything can have answers of
// the server stored in any stream of the account. No reader takes them for what they are not, but they fill streams
// that have a bound, and what is over the bound is refused to everybody. The runner of the first partition of the
// inbox looks at each new message once and removes those that are no call, no timer, and no entry of a bucket. The
// inbox has a sweep of its own, which keeps what it takes out as dead letters; the profiles are put in order by
// package registry; logs are left alone.
package sweep
