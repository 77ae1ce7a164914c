// Package bridges holds the bridges against a whole system, by their protocols' official clients where there are any:
// those of package.json in this directory, in Node.js. See the tests.
package bridges
