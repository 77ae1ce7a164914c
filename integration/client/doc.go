// Package client tests the Go client, bus/client, with real runners, workers and servers.
package client
