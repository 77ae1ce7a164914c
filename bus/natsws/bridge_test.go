package natsws_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsws"
)

// serve starts a bridge and returns it with its address, host:port.
func serve(t *testing.T, o natsws.Options) (*natsws.Bridge, string) {
	t.Helper()
	b := natsws.New(o)
	s := httptest.NewServer(b)
	t.Cleanup(func() { b.Close(); s.Close(); http.DefaultClient.CloseIdleConnections() })
	return b, s.Listener.Addr().String()
}

// connect connects as NATS's own client does by WebSocket.
func connect(addr string, o ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("ws://"+addr, append(o, nats.ProxyPath("/nats"))...)
}

// Everything passes in both directions, whatever its size; the end of the bridge reaches the client, and nothing is
// left.
func TestTheProtocolPasses(t *testing.T) {
	t.Parallel()
	b, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{InProcess: bustest.Server(t)}})
	lost := make(chan error, 1)
	nc, err := connect(addr, nats.NoReconnect(), nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { lost <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("a.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 70_000, 1 << 20} {
		text := strings.Repeat("INFO {}\r\n", size/9+1)[:size] // which is no line of the protocol here
		if err := nc.PublishMsg(&nats.Msg{Subject: "a.b", Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
		m, err := sub.NextMsg(10 * time.Second)
		if err != nil || string(m.Data) != text {
			t.Fatalf("%d bytes: %v, %d came", size, err, len(m.Data))
		}
	}
	m := nats.NewMsg("a.c")
	m.Header.Set("Key", "value")
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(10 * time.Second); err != nil || m.Header.Get("Key") != "value" {
		t.Errorf("a message with a header: %v, %v", m, err)
	}
	b.Close()
	select {
	case <-lost:
	case <-bustest.Deadline(t).Done():
		t.Error("the client was not told of the end")
	}
	if _, err := connect(addr); err == nil {
		t.Error("a bridge that was closed takes a connection")
	}
}

// certificate makes one for 127.0.0.1 that signs itself.
func certificate(t *testing.T) (certFile, keyFile string, pair tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	if err := errors.Join(os.WriteFile(certFile, certPEM, 0o600), os.WriteFile(keyFile, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	pair, err = tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return certFile, keyFile, pair
}

// A server with TLS and users: the handshake is the bridge's, the user is the client's own.
func TestTheUserIsTheClientsOwn(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pair := certificate(t)
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(leaf)
	s := bustest.NATS(t, &server.Options{TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
		Users: []*server.User{{Username: "ann", Password: "secret", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"may"}}}}}})
	up := natsws.Upstream{URL: "nats://127.0.0.1:1, " + s.ClientURL(), CAFile: certFile, CertFile: certFile,
		KeyFile: keyFile}
	b, addr := serve(t, natsws.Options{Upstream: up})
	if asks, err := b.AuthRequired(t.Context()); err != nil || !asks {
		t.Errorf("the server asks for credentials: %v, %v", asks, err)
	}
	for _, who := range []nats.Option{nats.UserInfo("ann", "wrong"), nats.Name("nobody")} {
		if _, err := connect(addr, who); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("without the password: %v", err)
		}
	}
	refused := make(chan error, 1)
	nc, err := connect(addr, nats.UserInfo("ann", "secret"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := errors.Join(nc.Publish("may", nil), nc.Publish("not", nil), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"not"`) {
		t.Errorf("the server says %v", err)
	}
	up.CAFile = ""
	_, addr = serve(t, natsws.Options{Upstream: up})
	if _, r, err := websocket.Dial(t.Context(), "ws://"+addr, nil); err == nil || r.StatusCode != http.StatusBadGateway {
		t.Errorf("a server that nobody vouches for: %v", err)
	}
}

// stub is a server of the test's own.
type stub chan net.Conn

func (s stub) InProcessConn() (net.Conn, error) {
	ours, theirs := net.Pipe()
	s <- ours
	return theirs, nil
}

const stubInfo = `INFO {"server_id":"x","tls_available":true,"connect_urls":["10.0.0.1:4222"],"client_ip":"10.0.0.2",` +
	`"auth_required":true,"max_payload":1024}` + "\r\n"

// greeted opens a WebSocket to a stub and returns both ends, after the server has said its INFO.
func greeted(t *testing.T, s stub, addr string, header http.Header) (*websocket.Conn, net.Conn) {
	t.Helper()
	server := make(chan net.Conn, 1)
	go func() {
		c := <-s
		_, _ = io.WriteString(c, stubInfo)
		server <- c
	}()
	ws, r, err := websocket.Dial(bustest.Deadline(t), "ws://"+addr, &websocket.DialOptions{HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	c := <-server
	t.Cleanup(func() { _ = c.Close() })
	kind, said, err := ws.Read(bustest.Deadline(t))
	if want := `INFO {"auth_required":true,"max_payload":1024,"server_id":"x"}` + "\r\n"; err != nil ||
		kind != websocket.MessageBinary || string(said) != want {
		t.Fatalf("the client is told %v %q, %v, want %q", kind, said, err, want)
	}
	return ws, c
}

// A cookie's JWT becomes part of a CONNECT that has no credentials, and of no other.
func TestJWTOfACookie(t *testing.T) {
	t.Parallel()
	s := make(stub)
	_, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{InProcess: s}, JWTCookie: "who"})
	for _, c := range []struct{ said, want string }{
		{`{"user":"","verbose":false}`, `{"jwt":"a.b.c","user":"","verbose":false}`},
		{`{"user":"ann"}`, `{"user":"ann"}`},
	} {
		ws, server := greeted(t, s, addr, http.Header{"Cookie": {"who=a.b.c"}})
		if err := ws.Write(t.Context(), websocket.MessageBinary, []byte("CONNECT "+c.said+"\r\nPING\r\n")); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(server)
		line, err := r.ReadString('\n')
		if err != nil || line != "CONNECT "+c.want+"\r\n" {
			t.Errorf("the server hears %q, %v", line, err)
		}
		if line, err := r.ReadString('\n'); err != nil || line != "PING\r\n" {
			t.Errorf("then %q, %v", line, err)
		}
	}
}

// ends reads a WebSocket to its end.
func ends(t *testing.T, ws *websocket.Conn) error {
	t.Helper()
	for {
		if _, _, err := ws.Read(bustest.Deadline(t)); err != nil {
			return err
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	const short = 100 * time.Millisecond
	open := func(o natsws.Options) (*websocket.Conn, net.Conn) {
		t.Helper()
		s := make(stub)
		o.Upstream.InProcess = s
		_, addr := serve(t, o)
		return greeted(t, s, addr, nil)
	}
	gone := func(what string, server net.Conn) {
		t.Helper()
		_ = server.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, server); err != nil {
			t.Errorf("%s: the server's connection stays: %v", what, err)
		}
	}

	ws, server := open(natsws.Options{FirstTimeout: short})
	if err := ends(t, ws); err == nil {
		t.Error("a client that says nothing stays")
	}
	gone("a client that says nothing", server)

	ws, server = open(natsws.Options{})
	go func() { _, _ = io.Copy(io.Discard, server) }()
	if err := ws.Write(t.Context(), websocket.MessageBinary, make([]byte, 5<<20)); err == nil {
		if err = ends(t, ws); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
			t.Errorf("a frame that is too big: %v", err)
		}
	}

	_, server = open(natsws.Options{WriteTimeout: short}) // it reads nothing more
	_ = server.SetDeadline(time.Now().Add(30 * time.Second))
	var err error
	for sent := 0; err == nil; sent += 1 << 20 {
		if _, err = io.WriteString(server, "MSG a 1 1048576\r\n"); err == nil {
			_, err = server.Write(make([]byte, 1<<20+2))
		}
		if sent > 64<<20 {
			t.Fatal("what a slow reader does not take goes on to be taken from the server")
		}
	}
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a slow reader: %v", err)
	}

	ws, server = open(natsws.Options{PingInterval: short, WriteTimeout: short})
	if err := ws.Write(t.Context(), websocket.MessageBinary, []byte("CONNECT {}\r\n")); err != nil {
		t.Fatal(err)
	}
	gone("a client that answers no ping", server) // nobody reads from ws, so nobody answers
}

// A page of another host that opens a WebSocket is refused.
func TestForeignOrigin(t *testing.T) {
	t.Parallel()
	_, addr := serve(t, natsws.Options{Upstream: natsws.Upstream{InProcess: bustest.Server(t)},
		Origins: []string{"console.example.com", "other.example.com:8443"}})
	for origin, may := range map[string]bool{"https://evil.example.com": false, "http://" + addr: true,
		"https://console.example.com": true, "https://console.example.com:8443": false, "null": false,
		"https://other.example.com:8443": true, "https://other.example.com": false,
		"https://console.example.com.evil.org": false} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		ws, r, err := websocket.Dial(ctx, "ws://"+addr, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {origin}}})
		cancel()
		if may != (err == nil) || !may && r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %v", origin, err)
		}
		if err == nil {
			_ = ws.CloseNow()
		}
	}
}
