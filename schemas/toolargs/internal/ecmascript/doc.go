// Package ecmascript translates regular expressions of JavaScript, as with its flag u, for other engines.
package ecmascript
