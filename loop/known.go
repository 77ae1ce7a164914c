package loop

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
)

// MaxKnown is how many commands a session remembers, the newest: one of them that is sent again changes nothing. It is
// as many as may wait, so that whatever waits is known; a session of a million commands is none the larger for it.
const MaxKnown = MaxQueued

// Known are the commands that the log has, by a hash of 64 bits of their ids.
type Known struct{ hashes []uint64 }

// Has reports whether the command is among them.
func (k Known) Has(id string) bool { return slices.Contains(k.hashes, hashOf(id)) }

// IsZero reports whether there are none.
func (k Known) IsZero() bool { return len(k.hashes) == 0 }

// add remembers a command, and forgets the oldest where there are too many.
func (k *Known) add(id string) {
	if id == "" || k.Has(id) {
		return
	}
	from := max(len(k.hashes)+1-MaxKnown, 0)
	k.hashes = append(k.hashes[from:len(k.hashes):len(k.hashes)], hashOf(id))
}

// hashOf is the beginning of the SHA-256 of an id: nobody can find an id that has the hash of one of ours, and so be
// taken for it.
func hashOf(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// MarshalJSON writes the hashes as one text.
func (k Known) MarshalJSON() ([]byte, error) {
	raw := make([]byte, 0, 8*len(k.hashes))
	for _, h := range k.hashes {
		raw = binary.BigEndian.AppendUint64(raw, h)
	}
	return json.Marshal(base64.RawStdEncoding.EncodeToString(raw))
}

// UnmarshalJSON reads what [Known.MarshalJSON] has written.
func (k *Known) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(raw)%8 != 0 {
		return fmt.Errorf("loop: %d bytes of known commands: %v", len(raw), err)
	}
	for ; len(raw) > 0; raw = raw[8:] {
		k.hashes = append(k.hashes, binary.BigEndian.Uint64(raw))
	}
	return nil
}
