// Package integration has the tests and benchmarks of the whole system, for behaviour that the tests of a single
// package cannot show. It exports nothing; code that several test packages share is in integration/internal.
package integration
