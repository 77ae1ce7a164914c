package vendortest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// accountKey returns the private key of all service accounts. To make one takes a while.
var accountKey = sync.OnceValues(func() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKCS8PrivateKey(key)
})

// ServiceAccount returns the file of a service account of Google Cloud, whose access tokens come from a server with
// this handler. The server stops when the test ends.
func ServiceAccount(tb testing.TB, tokens http.HandlerFunc) (file string) {
	tb.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the request's context ends with the connection only after its body
		tokens(w, r)
	}))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	der, err := accountKey()
	if err != nil {
		tb.Fatal(err)
	}
	account, err := json.Marshal(map[string]string{"type": "service_account", "client_email": "a@example.com",
		"private_key_id": "1", "token_uri": s.URL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))})
	if err != nil {
		tb.Fatal(err)
	}
	file = filepath.Join(tb.TempDir(), "account.json")
	if err := os.WriteFile(file, account, 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
