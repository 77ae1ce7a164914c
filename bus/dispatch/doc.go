// Package dispatch stores tool calls in the queues of their tools, sends cancellations to workers, calls tools for
// programs that have no session ([Caller]), and answers the calls of tools that no worker serves ([Unserved]).
package dispatch
