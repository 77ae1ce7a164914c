// Package commands finds out whether a session's log has a command that the session's state has forgotten.
package commands

import (
	"hash/maphash"
	"iter"

	"github.com/loopbus/loopbus/schemas"
)

// Index is the set of the commands of a log, up to an event. It takes some 16 bytes for each command. The zero value is
// empty. An Index is not safe for concurrent use.
type Index struct {
	seq  uint64 // of the last event that was read
	seed maphash.Seed
	all  map[uint64]struct{}
}

// Next returns the sequence of the first event that the index has not read.
func (x *Index) Next() uint64 { return x.seq + 1 }

// ReadOn adds the commands of the log from [Index.Next] on. After an error it has the commands up to that.
func (x *Index) ReadOn(log iter.Seq2[schemas.Event, error]) error {
	if x.all == nil {
		x.seed, x.all = maphash.MakeSeed(), map[uint64]struct{}{}
	}
	for e, err := range log {
		if err != nil {
			return err
		}
		switch d := e.Data.(type) {
		case *schemas.CommandAccepted:
			x.add(d.CommandID)
		case *schemas.CommandRejected:
			x.add(d.CommandID)
		}
		x.seq = e.Seq
	}
	return nil
}

func (x *Index) add(id string) { x.all[maphash.String(x.seed, id)] = struct{}{} }

// Has reports whether a command is among them.
func (x *Index) Has(id string) bool {
	if x.all == nil {
		return false
	}
	_, ok := x.all[maphash.String(x.seed, id)]
	return ok
}
