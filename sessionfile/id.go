package sessionfile

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// newID returns eight hexadecimal digits that are not in use.
func newID(taken func(id string) bool) string {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails
		if id := hex.EncodeToString(b[:]); !taken(id) {
			return id
		}
	}
}

// newSessionID returns a UUID of version 7.
func newSessionID(now time.Time) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	ms := now.UnixMilli()
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Stamp returns a time in the format of files: ISO 8601, UTC, milliseconds.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// fileName returns the name of a new session's file.
func fileName(timestamp, id string) string {
	return strings.NewReplacer(":", "-", ".", "-").Replace(timestamp) + "_" + id + ".jsonl"
}
