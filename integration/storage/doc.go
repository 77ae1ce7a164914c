// Package storage has tests of full streams, a full disk, and damaged files of a server.
package storage
