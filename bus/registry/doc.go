// Package registry follows the buckets in which workers announce their tools and the resources of their workspaces, and
// in which operators store profiles.
//
// A client that may publish any message can direct an answer of a NATS server to a key of a bucket. Such a foreign
// entry is not part of the bucket: the last value that a client has put stays valid.
package registry
