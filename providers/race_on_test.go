//go:build race

package providers_test

// raceDetector makes everything ten times as slow: tests of sizes have smaller ones.
const raceDetector = true
