// Package agent runs a conversation in this process, without a bus. An [Agent] has a transcript and queues for prompts,
// steering and follow-ups. [RunLoop] and [ContinueLoop] make a single run without queues.
//
// An agent is a session like any other: package loop decides, package driver carries out, and the events go to
// [Options].Log, if there is one. Differences from a session on the bus are pi's: a steer or follow-up that finds the
// agent idle waits for the next run, tools run in this process, and no call can wait for an approval.
//
// A run that does not end by the model's own decision returns its [Result] and a [RunError]. A call that starts no run
// returns a [RejectedError]; for a busy agent it wraps [ErrBusy]. An error of the log, or of a listener at the end of a
// run, is returned as it is.
package agent
