// Package agent is a conversation in this process, without a bus: an [Agent] has a transcript and queues for
// prompts, steering and follow-ups; [RunLoop] and [ContinueLoop] are a single run without queues.
package agent
