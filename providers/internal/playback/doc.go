// Package playback streams prepared replies as a model would. The models that need no vendor, scripted and rehearsal,
// share it.
package playback
