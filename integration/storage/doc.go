// Package storage holds tests of streams that are full, of a disk that is full, and of stored files that are damaged.
package storage
