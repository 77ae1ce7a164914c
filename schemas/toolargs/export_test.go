package toolargs

import "context"

// CompileWithin compiles a schema whose patterns may try for so long in one validation, not for a second.
var CompileWithin = compileWithin

// Limit has the schema's validations take so many steps at most, not as many as others.
func (s *Schema) Limit(steps int) { s.steps = steps }

// TakeLargeRoom takes the room of large checks until release.
func TakeLargeRoom() (release func()) {
	if err := largeOnes.Acquire(context.Background(), largeRoom); err != nil {
		panic(err)
	}
	return func() { largeOnes.Release(largeRoom) }
}

// TakePlaces takes all places of matches and compilations of large patterns until release.
func TakePlaces() (release func()) {
	for range cap(large) {
		large <- struct{}{}
	}
	return func() {
		for range cap(large) {
			<-large
		}
	}
}
