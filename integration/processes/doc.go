// Package processes runs the commands of the project as processes of their own and does to them what happens to
// processes: they are killed at chosen points of a run, suspended, stopped, started again, and left at rest in
// great numbers.
//
// Where a process dies is chosen by what it sends: it is connected through a gateway (package
// integration/internal/wire) that sees every message, and is killed right before one reaches the server, or right after
// the server has answered it. So there are no fault points in the commands. Package crashpoints tries every point there
// is, in one process; here is one test, or a few, for each kind of point, with nothing simulated.
//
// TestAtRest is also a measurement:
//
//	go test ./integration/processes -run TestAtRest -v -atrest.sessions 100000 -timeout 60m
package processes
