package gateway

import "testing"

// What ends of a subscription that was given up does not end the one that was made in its place.
func TestASubscriptionThatEndsLate(t *testing.T) {
	t.Parallel()
	var s subscriptions
	s.init(nil)
	ended := map[string]bool{}
	before := &subscription{stop: func() { ended["before"] = true }}
	now := &subscription{stop: func() { ended["now"] = true }}
	s.all["s1"] = before
	s.remove("s1")
	s.all["s1"] = now
	s.forget("s1", before)
	if s.all["s1"] != now || ended["now"] || !ended["before"] {
		t.Errorf("subscribed: %v, ended: %v", s.all["s1"] == now, ended)
	}
	s.forget("s1", now)
	if len(s.all) > 0 || !ended["now"] {
		t.Errorf("%d are left", len(s.all))
	}
}
