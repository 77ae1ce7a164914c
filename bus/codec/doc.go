// Package codec decodes commands in every form that a client may send, and converts events and updates to and from the
// CloudEvents SDK's type.
package codec
