package dial_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/bus/dial"
)

func TestReadContextByName(t *testing.T) { // sets the environment
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Setenv("KEYS", "/keys")
	t.Setenv("HOME", "/home/me")
	if err := os.MkdirAll(filepath.Join(config, "nats", "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(config, "nats", "context", "work.json"), []byte(`{"url":"nats://a,nats://b",
		"creds":"$KEYS/my.creds","ca":"~/ca.pem","cert":"c.pem","key":"k.pem","tls_first":true,"jetstream_domain":"hub",
		"color_scheme":"red"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	url, o, err := dial.ReadContext("work")
	want := dial.Settings{CredsFile: "/keys/my.creds", CAFile: "/home/me/ca.pem", CertFile: "c.pem", KeyFile: "k.pem",
		TLSFirst: true, Domain: "hub"}
	if err != nil || url != "nats://a,nats://b" || o != want {
		t.Errorf("got %q, %+v, %v", url, o, err)
	}
}
