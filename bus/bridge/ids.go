package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// reserved begin the ids that the service gives to commands.
var reserved = []string{"cmd-", "timer-", "result/", "given-up/"}

// SessionID is the session of an id of another protocol: the id itself where it is legal, otherwise one that is made of
// its hash, always the same.
func SessionID(id string) string {
	if schemas.CheckSession(id) == nil {
		return id
	}
	return "x-" + hash(id)
}

// CommandID is the id of the command that a request with an id stands for: the id itself where it is legal, otherwise
// one that is made of its hash, always the same.
func CommandID(id string) string {
	legal := schemas.CheckCommandID(id) == nil
	for _, prefix := range reserved {
		legal = legal && !strings.HasPrefix(id, prefix)
	}
	if legal {
		return id
	}
	return "x-" + hash(id)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
