package crashpoints_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// callsInTurn has one call of each effect class, so that the nth of every point is that of the nth call.
var callsInTurn = &scenario{
	name: "calls in turn", worker: true,
	replies: []scripted.Response{calls("A", toolLook), calls("B", toolNote), calls("C", toolPay), scripted.Text("done")},
	user:    func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("go")) },
}

// TestEveryCrashPointOfAWorker tries every fault of a worker: in the middle of a call, at its result, at its
// settlement.
func TestEveryCrashPointOfAWorker(t *testing.T) {
	t.Parallel()
	base := undisturbed(t, callsInTurn)
	cases := everyFault(base, callsInTurn)
	t.Logf("%d faults of workers", len(cases))
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

// unknownResult is the line of the transcript, at unknownLine, which tells a model that nobody knows whether
// payC was carried out.
const (
	unknownLine   = 6
	unknownResult = "result of pay payC, error true: " + schemas.TextOutcomeUnknown
)

// afterWorkerFault is the outcome that effect classes allow. A call that is redelivered is executed again if it may
// be; an unsafe one is not, and the model is told so unless the first result was sent.
func afterWorkerFault(want outcome, f fault) outcome {
	lost := f.at.kind == pointTool || f.at.kind == pointResult && f.mode == killBefore // the result, with the worker
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

// forgiveLateNews leaves out what may become of the last call when the worker was lost at an earlier one: until the
// server has noticed it, it may give the call to a pull request of that worker. The call then comes to another one as
// its second delivery, which does not execute it, and says that nobody knows. It is for calls whose first delivery no
// worker has received. A settlement has no answer, so that a fault after it comes a moment late: by then the worker may
// have begun the last call.
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

// forgiveFreeze leaves out what nobody can know of a frozen worker. The server goes on giving it calls, which come to
// another one later; when it thaws, it executes those that it may. So repeatable calls are executed any number of
// times; an unsafe one is executed once, or the model is told that nobody knows, and it may not have been.
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
