package toolargs

import (
	"context"

	"github.com/loopbus/loopbus/schemas/turns"
)

// CompileWithin compiles a schema whose patterns may try for so long in one validation, not for a second.
var CompileWithin = compileWithin

// Limit has the schema's validations take so many steps at most, not as many as others.
func (s *Schema) Limit(steps int) { s.steps = steps }

// TakeLargeRoom takes the room of large checks until release.
func TakeLargeRoom() (release func()) { return take(largeOnes, classLarge, largeRoom) }

// TakeSlowRoom takes the room of slow checks until release.
func TakeSlowRoom() (release func()) { return take(rooms, classSlow, smallRoom) }

func take(room *turns.Turns[class], of class, n int) (release func()) {
	release, err := room.Wait(context.Background(), of, n)
	if err != nil {
		panic(err)
	}
	return release
}
