package mistralconversations

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// idLength is the number of letters and digits that Mistral requires of a tool call's id.
const idLength = 9

// ids maps the ids of a conversation's tool calls to ids that Mistral accepts. Different ids stay different.
type ids struct {
	made  map[string]string // original id -> sent id
	owner map[string]string // sent id -> original id
}

func newIDs() *ids {
	return &ids{made: make(map[string]string), owner: make(map[string]string)}
}

// rule is a [providers.IDRule].
func (i *ids) rule(id string, _ *schemas.AssistantMessage) string {
	if made, ok := i.made[id]; ok {
		return made
	}
	for attempt := 0; ; attempt++ {
		made := shortID(id, attempt)
		if _, taken := i.owner[made]; !taken {
			i.made[id], i.owner[made] = made, id
			return made
		}
	}
}

// shortID returns the letters and digits of the id if there are idLength of them, or else a hash. Each attempt returns
// a different id.
func shortID(id string, attempt int) string {
	seed := strings.Map(letterOrDigit, id)
	if attempt == 0 && len(seed) == idLength {
		return seed
	}
	if seed == "" {
		seed = id
	}
	if attempt > 0 {
		seed = fmt.Sprintf("%s:%d", seed, attempt)
	}
	hash := providers.ShortHash(seed)
	return hash[:min(len(hash), idLength)]
}

func letterOrDigit(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
		return r
	}
	return -1
}
