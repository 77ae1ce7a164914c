//go:build unix

package processes_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority issues certificates for a test. It has its own and a client's certificate as PEM files.
type authority struct {
	t              *testing.T
	cert           *x509.Certificate
	key            *ecdsa.PrivateKey
	ca, crt, keyPE string // files: the authority's certificate, a client's certificate and key
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}, a.newKey()
	der := a.sign(a.cert, a.key)
	a.ca = a.file("ca.pem", "CERTIFICATE", der)
	key := a.newKey()
	a.crt = a.file("client.pem", "CERTIFICATE", a.sign(&x509.Certificate{SerialNumber: big.NewInt(2),
		Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, key))
	a.keyPE = a.file("client.key", "PRIVATE KEY", a.pkcs8(key))
	return a
}

// server returns the TLS configuration of a server that requires client certificates.
func (a *authority) server() *tls.Config {
	key := a.newKey()
	der := a.sign(&x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "server"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, key)
	pool := x509.NewCertPool()
	own, err := x509.ParseCertificate(a.sign(a.cert, a.key))
	if err != nil {
		a.t.Fatal(err)
	}
	pool.AddCert(own)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) pkcs8(key *ecdsa.PrivateKey) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) file(name, kind string, der []byte) string {
	path := filepath.Join(a.t.TempDir(), name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}
