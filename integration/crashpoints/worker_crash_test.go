package crashpoints_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// callsInTurn has one call of each effect class, one after the other, so that the nth point of each kind belongs to the
// nth call.
var callsInTurn = &scenario{
	name: "calls in turn", worker: true,
	replies: []scripted.Response{calls("A", toolLook), calls("B", toolNote), calls("C", toolPay), scripted.Text("done")},
	user:    func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("go")) },
}

// TestEveryCrashPointOfAWorker tries every fault of a worker: during a call, at its result, at its acknowledgement.
func TestEveryCrashPointOfAWorker(t *testing.T) {
	t.Parallel()
	base := undisturbed(t, callsInTurn)
	cases := everyFault(base, callsInTurn)
	t.Logf("%d faults of workers", len(cases))
	if !*all {
		cases = draw(random(t), cases, *sample)
	}
	o := stageOptions{workerAckWait: 3 * time.Second, times: 2}
	tryAll(t, o, cases, func(c crashCase, tr *trial, got outcome) []string {
		want := base[c.scenario].outcome
		if f := c.faults[0]; f.mode == frozen {
			got = forgiveFreeze(want, got)
		} else {
			want = afterWorkerFault(want, f)
			got = forgiveLateNews(want, got, f, tr.missed(toolPay))
		}
		return tr.compare(want, got)
	})
}

// unknownResult is the line of the transcript, at unknownLine, that tells the model that the outcome of payC is
// unknown.
const (
	unknownLine   = 6
	unknownResult = "result of pay payC, error true: " + schemas.TextOutcomeUnknown
)

// afterWorkerFault returns the outcome that the effect classes require. A redelivered call is executed again if its
// class allows that. An unsafe call is not; unless the first result was sent, the model gets the result unknownResult.
func afterWorkerFault(want outcome, f fault) outcome {
	// The result was lost with the worker.
	lost := f.at.kind == pointTool || f.at.kind == pointResult && f.mode == killBefore
	again := lost || f.at.kind == pointResult && f.mode == killAfter || f.at.kind == pointSettle && !f.after()
	call := []string{"lookA", "noteB", "payC"}[f.at.n-1]
	switch {
	case call != "payC" && again:
		want.Executed = maps.Clone(want.Executed)
		want.Executed[call]++
	case call == "payC" && lost:
		want.Transcript = slices.Clone(want.Transcript)
		want.Transcript[unknownLine] = unknownResult
	}
	return want
}

// forgiveLateNews accepts two outcomes of the last call if the worker was lost at an earlier call. The server may
// deliver the call to a pull request of the lost worker before it notices the loss. Then the next worker gets the
// second delivery, does not execute it, and answers that the outcome is unknown. forgiveLateNews accepts that only if
// no worker received the first delivery. Also, an acknowledgement has no answer, so a fault after it is injected a
// moment late: by then the worker may have started the last call.
func forgiveLateNews(want, got outcome, f fault, missed bool) outcome {
	const last = 3
	begun := got.Executed["payC"]
	late := f.at.kind == pointSettle && f.after()
	if f.at.n < last && len(got.Transcript) > unknownLine && got.Transcript[unknownLine] == unknownResult &&
		(missed && begun == 0 || late && begun <= 1) {
		got.Transcript = slices.Clone(got.Transcript)
		got.Transcript[unknownLine] = want.Transcript[unknownLine]
		got.Executed = maps.Clone(got.Executed)
		got.Executed["payC"] = 1
	}
	return got
}

// forgiveFreeze accepts all outcomes that a frozen worker may cause. The server still delivers calls to it, and
// redelivers them to another worker later; when it thaws, it executes those that it may. So repeatable calls are
// executed any number of times. An unsafe call is executed once, or the model gets unknownResult and it is executed at
// most once.
func forgiveFreeze(undisturbed, got outcome) outcome {
	got.Executed = maps.Clone(got.Executed)
	for _, call := range []string{"lookA", "noteB"} {
		got.Executed[call] = min(got.Executed[call], 1)
	}
	if len(got.Transcript) > unknownLine && got.Transcript[unknownLine] == unknownResult {
		got.Transcript[unknownLine] = undisturbed.Transcript[unknownLine]
		got.Executed["payC"] = max(got.Executed["payC"], 1)
	}
	return got
}
