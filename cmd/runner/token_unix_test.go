//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/tools/bash"
)

// A token that another user has put into the store is not taken.
func TestATokenOfAnotherUserIsNotOurs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), tokenFile)
	if err := os.WriteFile(path, []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if !ours(path) {
		t.Error("the own file is not ours")
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	} else {
		path = "/" // of root
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if bash.OwnedByUser(info) || ours(path) {
		t.Error("the file of another user is ours")
	}
}
