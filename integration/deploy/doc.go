// Package deploy holds the tests of what is shipped with the programs: docs/deploy. They run the programs with the
// arguments and the permissions that stand there, and read what cannot be run.
package deploy
