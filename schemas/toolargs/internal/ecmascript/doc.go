// Package ecmascript translates regular expressions of JavaScript, with its flag u, for other engines.
package ecmascript
