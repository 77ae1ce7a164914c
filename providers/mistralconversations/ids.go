package mistralconversations

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// idLength is how many letters and digits the id of a tool call has to have.
const idLength = 9

// ids makes ids of a conversation's tool calls such as Mistral takes: no two calls get the same.
type ids struct {
	made  map[string]string // id -> ours
	owner map[string]string // ours -> id
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

// shortID returns the letters and digits of the id if they are as many as they should, else a hash. Each attempt gives
// another one.
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
