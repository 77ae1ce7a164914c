package proxy_test

import (
	"bufio"
	"fmt"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/integration/chaos/internal/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deadline bounds one step of a test; it is long enough for a busy machine.
const deadline = 30 * time.Second

// through starts a server that echoes lines, and a proxy to it.
func through(t *testing.T) *proxy.Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for s := bufio.NewScanner(c); s.Scan(); {
					fmt.Fprintln(c, s.Text())
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	p, err := proxy.New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// client is a connection that sends lines and reads them back.
type client struct {
	net.Conn
	heard *bufio.Reader
}

func dial(t *testing.T, p *proxy.Proxy) client {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{c, bufio.NewReader(c)}
}

// echoes reports whether a line comes back before the connection ends.
func (c client) echoes(t *testing.T) bool {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		return false
	}
	if _, err := fmt.Fprintln(c, "line"); err != nil {
		return false
	}
	line, err := c.heard.ReadString('\n')
	return err == nil && line == "line\n"
}

func TestProxyForwardsResetsCutsAndHeals(t *testing.T) {
	p := through(t)
	first := dial(t, p)
	if !first.echoes(t) {
		t.Fatal("no line is forwarded")
	}
	p.Reset()
	if first.echoes(t) {
		t.Error("a connection is open after a reset")
	}
	second := dial(t, p)
	if !second.echoes(t) {
		t.Error("no line is forwarded after a reset")
	}
	p.Cut()
	if second.echoes(t) || dial(t, p).echoes(t) {
		t.Error("a line is forwarded although the proxy is cut")
	}
	p.Heal()
	if !dial(t, p).echoes(t) {
		t.Error("no line is forwarded after healing")
	}
}

func TestStallForwardsNothingUntilHeal(t *testing.T) {
	p := through(t)
	c := dial(t, p)
	if !c.echoes(t) {
		t.Fatal("no line is forwarded")
	}
	p.Stall()
	if _, err := fmt.Fprintln(c, "held"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if line, err := c.heard.ReadString('\n'); err == nil {
		t.Errorf("%q was forwarded although the proxy is stalled", line)
	}
	p.Heal()
	if err := c.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	if line, err := c.heard.ReadString('\n'); err != nil || line != "held\n" {
		t.Errorf("after healing: %q, %v", line, err)
	}
}
