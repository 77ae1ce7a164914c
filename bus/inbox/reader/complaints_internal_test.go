package reader

import (
	"fmt"
	"testing"
	"time"
)

func TestComplaintsAreBounded(t *testing.T) {
	t.Parallel()
	var c complaints
	now := time.Now()
	for i := range 10 * maxComplaints {
		if !c.first("s1", fmt.Sprint(i), now) {
			t.Fatalf("cause %d was not said", i)
		}
	}
	if len(c.said) > maxComplaints {
		t.Errorf("%d are remembered", len(c.said))
	}
	if c.first("s1", fmt.Sprint(10*maxComplaints-1), now.Add(complaintAge-1)) {
		t.Error("the same was said again")
	}
	if !c.first("s1", fmt.Sprint(10*maxComplaints-1), now.Add(complaintAge)) {
		t.Error("the same was not said again after an hour")
	}
}
