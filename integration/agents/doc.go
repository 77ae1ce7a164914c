// Package agents has integration tests of the features that limit and shape a session: hooks that services answer,
// profiles, approvals, budgets, compaction, sub-agents, the tool pipeline, tools of a client, and branches.
package agents
