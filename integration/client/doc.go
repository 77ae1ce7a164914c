// Package client holds tests of the Go client, bus/client, on real runners, workers and servers.
package client
