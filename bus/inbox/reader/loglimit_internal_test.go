package reader

import (
	"fmt"
	"testing"
	"time"
)

func TestLogLimitIsBounded(t *testing.T) {
	t.Parallel()
	var l logLimit
	now := time.Now()
	for i := range 10 * maxLogged {
		if !l.allow("s1", fmt.Sprint(i), now) {
			t.Fatalf("cause %d was not logged", i)
		}
	}
	if len(l.logged) > maxLogged {
		t.Errorf("%d are remembered", len(l.logged))
	}
	if l.allow("s1", fmt.Sprint(10*maxLogged-1), now.Add(logAgain-1)) {
		t.Error("the same cause was logged again")
	}
	if !l.allow("s1", fmt.Sprint(10*maxLogged-1), now.Add(logAgain)) {
		t.Error("the same cause was not logged again after an hour")
	}
}
