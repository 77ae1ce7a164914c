// Package processes runs the commands of the project as separate processes. Its tests kill them at chosen points of a
// run, suspend, stop and restart them, and let great numbers of sessions come to rest.
//
// A process is connected through a gateway (package integration/internal/wire) that reads every message. A test kills
// the process right before a chosen message reaches the server, or right after the server has answered it. So the
// commands need no fault points. Package crashpoints tries every point, in one process; this package has one test, or a
// few, for each kind of point, with real processes.
//
// TestAtRest is also a measurement:
//
//	go test ./integration/processes -run TestAtRest -v -atrest.sessions 100000 -timeout 60m
package processes
