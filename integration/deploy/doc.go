// Package deploy tests the files of docs/deploy. Its tests run the programs with the arguments and the permissions in
// these files, and check the files that cannot be run.
package deploy
