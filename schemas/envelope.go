package schemas

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrAttribute is wrapped by the error of a CloudEvent that lacks a required attribute or has a broken one.
var ErrAttribute = errors.New("missing or broken CloudEvents attribute")

// envelope is what events and updates have in common, besides their payload.
type envelope struct {
	id, source, name           string
	time                       time.Time
	runID, turnID              string
	correlationID, causationID string
	traceParent, prevHash      string
}

func readEnvelope(header map[string][]string) (envelope, error) {
	r := attributes{header: header}
	if v := r.required(HeaderSpecVersion); r.err == nil && v != SpecVersion {
		return envelope{}, fmt.Errorf("schemas: %w: %s is %.20q and not %s", ErrAttribute, HeaderSpecVersion, v, SpecVersion)
	}
	env := envelope{
		id: r.required(HeaderID), source: r.required(HeaderSource), name: r.required(HeaderType),
		runID: r.optional(HeaderRunID), turnID: r.optional(HeaderTurnID),
		correlationID: r.optional(HeaderCorrelationID), causationID: r.optional(HeaderCausationID),
		traceParent: r.optional(HeaderTraceParent), prevHash: r.optional(HeaderPrevHash),
	}
	at := r.required(HeaderTime)
	if r.err != nil {
		return envelope{}, r.err
	}
	var err error
	if env.name, err = ParseCloudEventType(env.name); err != nil {
		return envelope{}, fmt.Errorf("schemas: read %.100q: %w", env.id, err)
	}
	env.time, err = time.Parse(time.RFC3339Nano, at)
	env.time = env.time.UTC()
	if err != nil || env.time.Year() < 0 || env.time.Year() > 9999 {
		return envelope{}, fmt.Errorf("schemas: read %.100q: %w: %s is no RFC 3339 time", env.id, ErrAttribute, HeaderTime)
	}
	return env, nil
}

// attributes decodes headers and keeps the first error.
type attributes struct {
	header map[string][]string
	err    error
}

func (a *attributes) optional(key string) string {
	values := a.header[key]
	if len(values) == 0 {
		return ""
	}
	v, err := DecodeHeaderValue(values[0])
	if err != nil && a.err == nil {
		a.err = fmt.Errorf("schemas: %w: %s: %w", ErrAttribute, key, err)
	}
	return v
}

func (a *attributes) required(key string) string {
	v := a.optional(key)
	if v == "" && a.err == nil {
		a.err = fmt.Errorf("schemas: %w: no %s", ErrAttribute, key)
	}
	return v
}

// checkEnvelope refuses what could not be decoded again.
func checkEnvelope(session string, seq uint64, source string) error {
	switch {
	case seq == 0:
		return fmt.Errorf("%w: sequence 0", ErrAttribute)
	case source == "":
		return fmt.Errorf("%w: no source", ErrAttribute)
	}
	return CheckSession(session)
}

func splitID(id string) (session string, seq uint64, err error) {
	session, tail, ok := cutLast(id, "/")
	seq, err = parseCount(tail)
	if !ok || err != nil {
		return "", 0, fmt.Errorf("schemas: %w: event id %.100q is not <session>/<seq>", ErrAttribute, id)
	}
	return session, seq, CheckSession(session)
}

// parseCount parses a number from 1 on, without leading zeros.
func parseCount(s string) (uint64, error) {
	if strings.HasPrefix(s, "0") {
		return 0, strconv.ErrRange
	}
	return strconv.ParseUint(s, 10, 64)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}
