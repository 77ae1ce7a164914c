// Package bridges holds the bridges against a whole system, by their protocols' official clients where there are any:
// those of package.json beside this file, in Node.js. See the tests.
package bridges
