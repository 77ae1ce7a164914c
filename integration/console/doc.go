// Package console holds the web console, in a real browser, against a real server and runner.
package console
