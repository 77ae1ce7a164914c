package streams

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// spec is one stream as it should be.
type spec struct {
	want  jetstream.StreamConfig // what a new one is made of
	given jetstream.StreamConfig // limits the caller asked for: they change an existing one; zero leaves it as it is
	// anyPartitions accepts the number of partitions an existing stream has, because the caller did not ask for one.
	anyPartitions bool
	// transient streams hold nothing that matters for more than minutes: one that is kept in the wrong storage is made
	// anew.
	transient bool
	// noRollups takes roll-ups away from a stream of before, and the marks of what has expired, which need them.
	noRollups bool
	// create makes the stream in another way than by its configuration.
	create func(context.Context, jetstream.JetStream) error
}

// setting compares one setting that cannot be changed in place.
type setting struct {
	name       string
	have, want any
	hint       string
}

const (
	hintRecreate = "stop everything that uses it, save what is needed (nats stream backup), delete the stream and " +
		"start again"
	hintPrefix   = "it belongs to a deployment with another prefix; use that prefix, or another NATS account for this one"
	hintReplicas = "ask for no number to leave it as it is, or take replicas away with nats stream edit --replicas first"
	hintParts    = "use the number of partitions it has, or stop all runners once the queue is empty and delete the stream"
)

// compatible returns an [IncompatibleError] for the first setting that cannot be changed in place.
func (s spec) compatible(have jetstream.StreamConfig) error {
	settings := []setting{
		{"retention", have.Retention, s.want.Retention, hintRecreate},
		{"mirror", have.Mirror != nil, false, "promote the mirror to a stream first"},
		{"sealed", have.Sealed, false, hintRecreate},
		{"persist mode", have.PersistMode, s.want.PersistMode, hintRecreate},
		{"subjects", subjectSet(have.Subjects), subjectSet(s.want.Subjects), hintPrefix},
		{"partitions", partitionsIn(transform(have)), partitionsIn(s.wantTransform(have)), hintParts},
		{"subject transform", transform(have), s.wantTransform(have), hintParts},
	}
	if !s.transient {
		settings = append(settings, setting{"storage", have.Storage, s.want.Storage, hintRecreate})
	}
	if len(have.Sources) > 0 {
		settings = append(settings, setting{"sources", sources(have.Sources), sources(s.wantSources(have)), hintRecreate})
	}
	if have.RePublish != nil {
		settings = append(settings, setting{"republish", republish(have), republish(s.want), hintPrefix})
	}
	if s.given.Replicas > 0 && have.Replicas > s.given.Replicas { // more are given, but none taken away in passing
		settings = append(settings, setting{"replicas", have.Replicas, s.given.Replicas, hintReplicas})
	}
	for _, v := range settings {
		if v.have != v.want {
			return &IncompatibleError{
				Stream: s.want.Name, Setting: v.name, Hint: v.hint,
				Have: fmt.Sprint(v.have), Want: fmt.Sprint(v.want),
			}
		}
	}
	return nil
}

// merge returns the existing configuration with what we need changed in it, and whether that is any change.
func (s spec) merge(have jetstream.StreamConfig) (next jetstream.StreamConfig, changed bool) {
	next = have
	next.NoAck = false
	next.Discard = s.want.Discard
	next.AllowDirect = have.AllowDirect || s.want.AllowDirect
	next.AllowMsgTTL = have.AllowMsgTTL || s.want.AllowMsgTTL
	next.AllowMsgSchedules = have.AllowMsgSchedules || s.want.AllowMsgSchedules
	next.AllowRollup = have.AllowRollup || s.want.AllowRollup
	next.DenyDelete = have.DenyDelete || s.want.DenyDelete
	next.RePublish = s.want.RePublish
	if len(have.Sources) == 0 {
		next.Sources = s.wantSources(have)
	}
	set(&next.SubjectDeleteMarkerTTL, s.want.SubjectDeleteMarkerTTL)
	if s.want.DiscardNewPerSubject {
		next.DiscardNewPerSubject = true
		next.MaxMsgsPerSubject = max(have.MaxMsgsPerSubject, s.want.MaxMsgsPerSubject)
	}
	if s.noRollups {
		next.AllowRollup, next.SubjectDeleteMarkerTTL = false, 0
	}
	if have.ConsumerLimits.InactiveThreshold == 0 {
		next.ConsumerLimits.InactiveThreshold = s.want.ConsumerLimits.InactiveThreshold
	}
	set(&next.Replicas, s.given.Replicas)
	set(&next.MaxMsgSize, s.given.MaxMsgSize)
	set(&next.MaxBytes, s.given.MaxBytes)
	set(&next.MaxMsgs, s.given.MaxMsgs)
	set(&next.MaxAge, s.given.MaxAge)
	set(&next.Duplicates, s.given.Duplicates)
	if next.MaxAge > 0 {
		next.Duplicates = min(next.Duplicates, next.MaxAge) // the server wants it so
	}
	return next, !reflect.DeepEqual(have, next)
}

// misplaced reports whether a transient stream has to be made anew: with replicas it does not do in memory.
func (s spec) misplaced(have jetstream.StreamConfig) bool {
	return s.transient && have.Storage == jetstream.MemoryStorage && max(have.Replicas, s.given.Replicas) > 1
}

// verify returns an error if the server has silently left out what it does not know.
func (s spec) verify(have jetstream.StreamConfig) error {
	for _, feature := range []struct {
		name       string
		have, want bool
	}{
		{"message schedules", have.AllowMsgSchedules, s.want.AllowMsgSchedules},
		{"message TTLs", have.AllowMsgTTL, s.want.AllowMsgTTL},
		{"subject transforms", have.SubjectTransform != nil, s.want.SubjectTransform != nil},
		{"republishing", have.RePublish != nil, s.want.RePublish != nil},
	} {
		if feature.want && !feature.have {
			return fmt.Errorf("the server does not support %s; nats-server 2.12 or later is needed", feature.name)
		}
	}
	return nil
}

// set overwrites a setting with a value that was given.
func set[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}

func subjectSet(subjects []string) string {
	return strings.Join(slices.Sorted(slices.Values(subjects)), " ")
}

func transform(c jetstream.StreamConfig) string {
	if c.SubjectTransform == nil {
		return "none"
	}
	return c.SubjectTransform.Source + " -> " + c.SubjectTransform.Destination
}

// wantTransform is the transform as it should be, with the number of partitions of the existing one if any will do.
func (s spec) wantTransform(have jetstream.StreamConfig) string {
	want := transform(s.want)
	if number := partitionRE.FindString(transform(have)); s.anyPartitions && number != "" {
		want = partitionRE.ReplaceAllString(want, number)
	}
	return want
}

// partitionsIn is the number of partitions that a transform makes.
func partitionsIn(transform string) string {
	if m := partitionRE.FindStringSubmatch(transform); m != nil {
		return m[1]
	}
	return "none"
}

// sources names where a stream takes messages from besides its subjects.
func sources(list []*jetstream.StreamSource) string {
	all := make([]string, 0, len(list))
	for _, source := range list {
		all = append(all, fmt.Sprint(source.Name, " ", source.FilterSubject, source.SubjectTransforms))
	}
	return strings.Join(all, ", ")
}

// wantSources is as wantTransform.
func (s spec) wantSources(have jetstream.StreamConfig) []*jetstream.StreamSource {
	number := partitionRE.FindString(transform(have))
	if !s.anyPartitions || number == "" {
		return s.want.Sources
	}
	list := make([]*jetstream.StreamSource, len(s.want.Sources))
	for i, source := range s.want.Sources {
		adapted := *source
		adapted.SubjectTransforms = slices.Clone(source.SubjectTransforms)
		for j, t := range adapted.SubjectTransforms {
			adapted.SubjectTransforms[j].Destination = partitionRE.ReplaceAllString(t.Destination, number)
		}
		list[i] = &adapted
	}
	return list
}

func republish(c jetstream.StreamConfig) string {
	if c.RePublish == nil {
		return "none"
	}
	return c.RePublish.Source + " -> " + c.RePublish.Destination
}
