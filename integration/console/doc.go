// Package console tests the web console in a real browser, with a real server and runner.
package console
