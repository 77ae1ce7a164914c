package process

import "testing"

// A port is given once, also when nobody listens on it yet.
func TestFreePortsAreGivenOnce(t *testing.T) {
	t.Parallel()
	given := map[int]bool{}
	for range 50 {
		ports, err := FreePorts(4)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			if given[port] {
				t.Errorf("port %d is given twice", port)
			}
			given[port] = true
		}
	}
}
