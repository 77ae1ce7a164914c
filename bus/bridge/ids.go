package bridge

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/loopbus/loopbus/schemas"
)

// SessionID maps an id of another protocol to a session id: the id itself if it is valid, otherwise one derived from
// its hash, which is always the same.
func SessionID(id string) string {
	if schemas.CheckSession(id) == nil {
		return id
	}
	return "x-" + hash(id)
}

// CommandID maps the id of a request to a command id: the id itself if it is valid, otherwise one derived from its
// hash, which is always the same.
func CommandID(id string) string {
	if schemas.CheckCommandID(id) == nil && !schemas.IsReservedCommandID(id) {
		return id
	}
	return "x-" + hash(id)
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
