// Package dispatch stores tool calls in the queues of their tools, asks workers to cancel them, brings answers to
// callers that have no session, and answers the calls of tools that nobody serves.
package dispatch
