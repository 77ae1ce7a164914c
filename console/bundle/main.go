// Command bundle makes the console's libraries, static/vendor, of what package-lock.json names:
//
//	npm ci --prefix console/bundle && go run ./console/bundle
//
// Browsers cannot import @nats-io/nats-core as it is published. It needs npm to fetch the packages, whose checksums are
// in package-lock.json, and nothing else.
package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// entries are the files that are made, by the text that they are made of.
var entries = map[string]string{
	// The package's index exports the whole library, and a CommonJS export is not left out: it would be a quarter more.
	"nats.js": `export { wsconnect } from "./node_modules/@nats-io/nats-core/lib/ws_transport.js";`,
	"preact.js": `export { Component, Fragment, h, isValidElement, render } from "preact";
export { default as htm } from "htm";
export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";`,
}

// packages are those that are in the files, each with its licence.
var packages = []string{"@nats-io/nats-core", "@nats-io/nuid", "preact", "htm"}

const (
	licences = "LICENSES.txt"
	sums     = "SHA256SUMS"
)

func main() {
	dir := "console"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	files, err := build(filepath.Join(dir, "bundle"))
	for name, content := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "static", "vendor", name), content, 0o644))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// build returns the files by name, made of the packages in a directory.
func build(dir string) (map[string][]byte, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, text := range entries {
		if files[name], err = bundled(dir, text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if files[licences], err = allLicences(dir); err != nil {
		return nil, err
	}
	files[sums] = checksums(files)
	return files, nil
}

func bundled(dir, text string) ([]byte, error) {
	r := api.Build(api.BuildOptions{
		Stdin:  &api.StdinOptions{Contents: text, ResolveDir: dir},
		Bundle: true, Format: api.FormatESModule, Platform: api.PlatformBrowser, Target: api.ES2022,
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, LegalComments: api.LegalCommentsNone,
		Alias:  map[string]string{"@nats-io/nkeys": filepath.Join(dir, "nkeys.js")},
		Banner: map[string]string{"js": "// Made by console/bundle; see LICENSES.txt."},
	})
	if len(r.Errors) > 0 {
		return nil, fmt.Errorf("%s: is there console/bundle/node_modules? npm ci --prefix console/bundle", r.Errors[0].Text)
	}
	return r.OutputFiles[0].Contents, nil
}

var (
	// copyright is the line that names the holder of a copyright.
	copyright = regexp.MustCompile(`Copyright 2.+`)
	// indent is left out of the licences, because every byte of them is embedded in the runner.
	indent = regexp.MustCompile(`(?m)^ +`)
)

func allLicences(dir string) ([]byte, error) {
	texts, of := map[string]string{}, map[string][]string{} // by their words, which are what they have in common
	for _, name := range packages {
		home := filepath.Join(dir, "node_modules", filepath.FromSlash(name))
		text, err := os.ReadFile(filepath.Join(home, "LICENSE"))
		if err != nil {
			return nil, err
		}
		words, appendix, _ := strings.Cut(string(text), "APPENDIX: How to apply") // which is about other works
		if holder := copyright.FindString(appendix); holder != "" {               // but for the holder of the copyright
			name += " (" + holder + ")"
		}
		key := strings.Join(strings.Fields(words), " ")
		texts[key], of[key] = strings.TrimSpace(indent.ReplaceAllString(words, "")), append(of[key], name)
	}
	var all []string
	for key, names := range of {
		all = append(all, fmt.Sprintf("==== %s\n\n%s\n", strings.Join(names, ", "), texts[key]))
	}
	slices.Sort(all)
	return []byte(strings.Join(all, "\n")), nil
}

// checksums are those of the files, in the form of sha256sum.
func checksums(files map[string][]byte) []byte {
	var lines []string
	for name, content := range files {
		if name != sums {
			lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
		}
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[66:], b[66:]) })
	return []byte(strings.Join(lines, ""))
}
