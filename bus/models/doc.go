// Package models puts a model behind the bus: a Server answers the model calls of other runners, a Client is a model
// that asks such servers.
package models
