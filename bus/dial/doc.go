// Package dial defines the settings of a connection to NATS: credentials, TLS, the location of JetStream, and the
// contexts of the nats command line. Runners, workers and clients all use it. It imports nats.go only.
package dial
