// Package bridges tests the bridges with a whole system, and with the official clients of their protocols where there
// are any: those of package.json in this directory, in Node.js.
package bridges
