// Package casetest finds recorded cases for the tests that play them: a JSON file each, whose name begins with a number
// of three digits. What is meant to differ from a recording has its number in a table of testdata/DEVIATIONS.md.
package casetest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Load reads all cases of a directory in the order of their names. Without any the test fails.
func Load[C any](t testing.TB, dir string, decode func(data []byte) (C, error)) (cases []C) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", dir, err)
	}
	for _, file := range files {
		cases = append(cases, One(t, file, decode))
	}
	return cases
}

// One reads a case.
func One[C any](t testing.TB, file string, decode func(data []byte) (C, error)) C {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := decode(data)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return c
}

// Further returns the directory of cases that are not part of the repository, which an environment variable names.
// Without it the test is skipped.
func Further(t testing.TB, variable string) (dir string) {
	t.Helper()
	if dir = os.Getenv(variable); dir == "" {
		t.Skipf("%s names no directory of cases", variable)
	}
	return dir
}

var row = regexp.MustCompile(`(?m)^\| (\d{3}) \|`)

// Deviating returns the numbers that begin a row of a table in testdata/DEVIATIONS.md.
func Deviating(t testing.TB) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "DEVIATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]bool{}
	for _, r := range row.FindAllSubmatch(text, -1) {
		numbers[string(r[1])] = true
	}
	return numbers
}
