package streams

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// spec describes one stream.
type spec struct {
	want  jetstream.StreamConfig // configuration of a new stream
	given jetstream.StreamConfig // limits that the caller has set, which change an existing stream; zero changes none
	// anyPartitions accepts the number of partitions of an existing stream, because the caller has not set one.
	anyPartitions bool
	// transient is true for a stream whose messages matter for minutes only: in the wrong storage it is deleted and
	// created again.
	transient bool
	// noRollups disables roll-ups of an existing stream, and the markers of expired entries, which need them.
	noRollups bool
	// create, if set, creates the stream in place of js.CreateStream.
	create func(context.Context, jetstream.JetStream) error
}

// setting is one setting that cannot be changed in place.
type setting struct {
	name       string
	have, want any
	hint       string
}

const (
	hintRecreate = "if a later version of loopbus has made it, start that version; otherwise stop everything that uses " +
		"it, save what is needed (nats stream backup), delete the stream and start again"
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
	if len(have.Sources) > 0 && !s.sourcesOfBefore(have) {
		settings = append(settings, setting{"sources", sources(have.Sources), sources(s.wantSources(have)), hintRecreate})
	}
	if have.RePublish != nil {
		settings = append(settings, setting{"republish", republish(have), republish(s.want), hintPrefix})
	}
	if s.given.Replicas > 0 && have.Replicas > s.given.Replicas { // Setup adds replicas, but never removes any
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

// merge returns the existing configuration with the settings that loopbus needs, and whether they differ.
func (s spec) merge(have jetstream.StreamConfig) (next jetstream.StreamConfig, changed bool) {
	next = have
	next.NoAck = false
	next.Discard = s.want.Discard
	if s.want.Discard == jetstream.DiscardNew { // so it must not drop what it has, which these limits do
		if s.want.MaxAge == 0 {
			next.MaxAge = 0
		}
		if s.want.MaxMsgsPerSubject == 0 {
			next.MaxMsgsPerSubject = min(have.MaxMsgsPerSubject, 0)
		}
	}
	next.AllowDirect = have.AllowDirect || s.want.AllowDirect
	next.AllowMsgTTL = have.AllowMsgTTL || s.want.AllowMsgTTL
	next.AllowMsgSchedules = have.AllowMsgSchedules || s.want.AllowMsgSchedules
	next.AllowRollup = have.AllowRollup || s.want.AllowRollup
	next.DenyDelete = have.DenyDelete || s.want.DenyDelete
	next.RePublish = s.want.RePublish
	if len(have.Sources) == 0 || s.sourcesOfBefore(have) {
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
	if have.MaxMsgs <= 0 && s.want.MaxMsgs > 0 {
		next.MaxMsgs = s.want.MaxMsgs
	}
	if have.ConsumerLimits.InactiveThreshold == 0 {
		next.ConsumerLimits.InactiveThreshold = s.want.ConsumerLimits.InactiveThreshold
	}
	next.MaxMsgSize = max(have.MaxMsgSize, s.want.MaxMsgSize)
	set(&next.Replicas, s.given.Replicas)
	set(&next.MaxBytes, s.given.MaxBytes)
	set(&next.MaxMsgs, s.given.MaxMsgs)
	set(&next.MaxAge, s.given.MaxAge)
	set(&next.Duplicates, s.given.Duplicates)
	if next.MaxAge > 0 {
		next.Duplicates = min(next.Duplicates, next.MaxAge) // the server requires it
	}
	return next, !reflect.DeepEqual(have, next)
}

// misplaced reports whether a transient stream has to be created again: with replicas it must not be in memory.
func (s spec) misplaced(have jetstream.StreamConfig) bool {
	return s.transient && have.Storage == jetstream.MemoryStorage && max(have.Replicas, s.given.Replicas) > 1
}

// verify returns an error if the server has silently ignored a feature that it does not know.
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

// set overwrites a setting with a value, unless that is zero.
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
	to := strings.ReplaceAll(c.SubjectTransform.Destination, wildcardTimed, wildcardBefore)
	return c.SubjectTransform.Source + " -> " + to
}

// wantTransform returns the transform that the stream should have. If anyPartitions is set, it has the number of
// partitions of the existing one.
func (s spec) wantTransform(have jetstream.StreamConfig) string {
	want := transform(s.want)
	if number := partitionRE.FindString(transform(have)); s.anyPartitions && number != "" {
		want = partitionRE.ReplaceAllString(want, number)
	}
	return want
}

// partitionsIn returns the number of partitions of a transform.
func partitionsIn(transform string) string {
	if m := partitionRE.FindStringSubmatch(transform); m != nil {
		return m[1]
	}
	return "none"
}

// sources describes the sources of a stream.
func sources(list []*jetstream.StreamSource) string {
	all := make([]string, 0, len(list))
	for _, source := range list {
		all = append(all, fmt.Sprint(source.Name, " ", source.FilterSubject, source.SubjectTransforms))
	}
	return strings.Join(all, ", ")
}

// wantSources returns the sources that the stream should have, adapted like wantTransform.
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

// sourcesOfBefore reports whether due timers go to the subject of an earlier version, which all timers shared.
func (s spec) sourcesOfBefore(have jetstream.StreamConfig) bool {
	before := strings.ReplaceAll(sources(s.wantSources(have)), ".{{wildcard(2)}}}", "}")
	return before != sources(s.wantSources(have)) && sources(have.Sources) == before
}

func republish(c jetstream.StreamConfig) string {
	if c.RePublish == nil {
		return "none"
	}
	return c.RePublish.Source + " -> " + c.RePublish.Destination
}
