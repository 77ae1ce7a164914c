package schemas_test

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// What is no profile must not pass for one that allows everything. A member of a later version does no harm beside
// others.
func TestWhatIsNoProfileIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, `{"description":"x"}`, `{"tools":["read"],"later":1}`} {
		if _, err := schemas.ParseProfile([]byte(payload)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
	for _, payload := range []string{"", "null", "[]", `{"stream":"AGENT_CMD","seq":1}`,
		`{"type":"message_update","delta":"x"}`, `{"aproval":{"tools":["*"]}}`} {
		if p, err := schemas.ParseProfile([]byte(payload)); err == nil {
			t.Errorf("%s is the profile %+v", payload, p)
		}
	}
}
