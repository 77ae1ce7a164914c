package schemas_test

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestUsageIsClamped(t *testing.T) {
	t.Parallel()
	bad := schemas.Usage{
		Input: -1, Output: 1 << 60, CacheRead: 3, CacheWrite: -1 << 63, TotalTokens: -7,
		Cost: schemas.Cost{Input: -0.5, Output: 2, Total: -1},
	}
	want := schemas.Usage{Output: 1<<53 - 1, CacheRead: 3, Cost: schemas.Cost{Output: 2}}
	if got := bad.Clamped(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	reply := &schemas.AssistantMessage{Usage: bad}
	if got := schemas.ValidReply(reply); got.Usage != want || reply.Usage != bad {
		t.Errorf("%+v of %+v", got.Usage, reply.Usage)
	}
	reply.Usage, reply.StopReason = want, schemas.StopStop
	if schemas.ValidReply(reply) != reply {
		t.Error("a reply that is valid is another one")
	}
}
