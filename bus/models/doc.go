// Package models serves models over NATS: a [Server] answers the model calls of other runners and programs, and a
// [Client] is a model that sends its requests to such servers.
package models
