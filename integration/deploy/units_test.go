//go:build unix

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// unitFile is one of systemd.
type unitFile struct {
	text string
	exec []string // ExecStart
	is   map[string]string
}

// unit reads the unit of a program.
func unit(t *testing.T, program string) unitFile {
	t.Helper()
	u := unitFile{text: read(t, filepath.Join(deploy, "systemd", "loopbus-"+program+".service")), is: map[string]string{}}
	for line := range strings.Lines(u.text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			u.is[key] += value
		}
	}
	u.exec = strings.Fields(u.is["ExecStart"])
	return u
}

// TestUnits checks that the units are hardened. If systemd is installed, it also checks that systemd accepts them and
// rates their exposure as low.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"runner", "toolworker"} {
		u := unit(t, program)
		for key, want := range map[string]string{"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes",
			"CapabilityBoundingSet": "", "PrivateDevices": "yes", "PrivateTmp": "yes", "ProtectKernelTunables": "yes",
			"RestrictNamespaces": "yes", "RestrictSUIDSGID": "yes", "Restart": "always", "KillMode": "mixed"} {
			if got, ok := u.is[key]; !ok || got != want {
				t.Errorf("%s: %s=%s, want %s", program, key, got, want)
			}
		}
		if u.is["User"] == "root" || u.is["User"] == "" && u.is["DynamicUser"] != "yes" {
			t.Errorf("%s runs as root", program)
		}
		if u.is["StartLimitIntervalSec"] != "0" { // a server that is away for long would end it for good
			t.Errorf("%s is started a few times only", program)
		}
		verify(t, program, u)
	}
}

// verify asks systemd about a unit, with the program where it is here.
func verify(t *testing.T, program string, u unitFile) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("systemd has not looked at the unit of %s: %v", program, err)
		return
	}
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "loopbus-"+program+".service")
	text := strings.Replace(u.text, u.exec[0], filepath.Join(dir, program), 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=20", file).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
