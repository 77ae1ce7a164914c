package mcp

import (
	"errors"
	"io"
	"net"
	"testing"
)

// The connections of a session end with it, whatever its requests wait for, and none is opened afterwards.
func TestConnectionsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c := newConns()
	dial := c.dial(new(net.Dialer).DialContext)
	var there []net.Conn
	for range 2 {
		if _, err := dial(t.Context(), "tcp", l.Addr().String()); err != nil {
			t.Fatal(err)
		}
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		there = append(there, conn)
	}
	c.closeAll()
	for _, conn := range there {
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection is open: %v", err)
		}
		_ = conn.Close()
	}
	if conn, err := dial(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("opened %v, %v after the end", conn, err)
	}
	one := newConns()
	conn, err := one.dial(new(net.Dialer).DialContext)(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _ = conn.Close(); len(one.open) != 0 {
		t.Error("a connection that was closed is kept")
	}
}
