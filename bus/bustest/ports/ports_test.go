package ports

import "testing"

// Each port is returned once, even if no process listens on it yet.
func TestEachPortIsFoundOnce(t *testing.T) {
	t.Parallel()
	given := map[int]bool{}
	for range 50 {
		ports, err := Free(4)
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			if given[port] {
				t.Errorf("port %d was returned twice", port)
			}
			given[port] = true
		}
	}
}
