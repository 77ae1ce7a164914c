// Package wiring assembles a runner from its parts: the streams, the log, the host of the sessions, their inbox, and
// the tools and models that the runner serves. The runner's command and the integration tests both use it, so that
// tests run what ships. What belongs to the command line stays in cmd/runner.
package wiring
