// Package dial has the settings by which a process reaches NATS: credentials, TLS, the place of JetStream, and the
// contexts of the nats command line that name them. Runners, workers and clients use the same ones. It imports nats.go
// and nothing else.
package dial
