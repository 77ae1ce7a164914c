// Package sourcetree has the tests of the source tree as text: which package may import which, the words of comments
// and documents, and that links, commands and Go programs in documents are right. They need no server, and compute
// much, so they are apart from tests whose processes share the processor with them. The package exports nothing.
package sourcetree
