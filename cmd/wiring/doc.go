// Package wiring puts the parts of a runner together: the streams, the log, the host of the sessions, their inbox, the
// tools and models that the runner serves. The runner's command and the tests of the whole use it alike, so that what
// is tested is what ships. What a command line has to say stays in cmd/runner.
package wiring
