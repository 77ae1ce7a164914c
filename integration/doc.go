// Package integration holds the tests and benchmarks of the whole system: what only shows when the parts are together.
// It has no code of its own for others to use; what its tests have in common is in integration/internal.
package integration
