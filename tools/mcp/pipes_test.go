package mcp_test

import "io"

// ends are one side of a connection.
type ends struct {
	in  io.ReadCloser
	out io.WriteCloser
}

func newPipes() (here, there ends) {
	fromThere, toHere := io.Pipe()
	fromHere, toThere := io.Pipe()
	return ends{fromThere, toThere}, ends{fromHere, toHere}
}
