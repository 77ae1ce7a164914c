// Package headerlimit keeps messages with thousands of headers from a process. A NATS client decodes the headers of
// each message that it receives before anybody asks for them, and behind them waits all that the connection has to
// receive: 64 KiB of tiny headers take some two milliseconds and a megabyte. The limit is applied where the protocol is
// read, so it holds whoever sends them, and at which subject.
package headerlimit
