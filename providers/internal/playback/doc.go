// Package playback streams replies that are known beforehand, as a model would: what the models that need no vendor,
// scripted and rehearsal, have in common.
package playback
