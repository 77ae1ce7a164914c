// Package agents holds tests of what bounds and shapes a session, over the whole of loopbus: hooks that services
// answer, profiles, approvals, budgets, the tool pipeline, tools of a client, and branches.
package agents
