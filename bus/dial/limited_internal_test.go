package dial

import "testing"

// A server of a cluster names the others by their addresses. Their certificates are for the name by which it was
// connected to itself; one that is configured by its address is known by that.
func TestServerName(t *testing.T) {
	t.Parallel()
	d := &dialer{configured: map[string]bool{"10.0.0.1": true, "nats.example": true}}
	for _, c := range []struct{ host, want string }{
		{"10.0.0.2", "10.0.0.2"}, {"nats.example", "nats.example"}, {"10.0.0.2", "nats.example"}, {"10.0.0.1", "10.0.0.1"},
		{"::1", "nats.example"},
	} {
		if got := d.serverName(c.host); got != c.want {
			t.Errorf("%s: %s, want %s", c.host, got, c.want)
		}
	}
}
