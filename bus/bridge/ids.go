package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// maxID is how many bytes an id of a client may have that a bridge remembers beyond its request.
const maxID = 1 << 10

// CheckID returns an error if an id is too long to be remembered. name is what the protocol calls it.
func CheckID(name, id string) error {
	if len(id) > maxID {
		return &RequestError{Reason: fmt.Sprintf("%s has more than %d bytes", name, maxID)}
	}
	return nil
}

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
