package sessionfile_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/loopbus/loopbus/schemas/casetest"
)

// casesDir is the environment variable with the path of another directory of cases.
const casesDir = "LOOPBUS_SESSION_CASES"

// TestSessionCases plays the recorded behaviour of pi's sessions: files, trees, compaction, summaries of branches.
// Cases that differ on purpose are listed in testdata/DEVIATIONS.md and played in their better form.
func TestSessionCases(t *testing.T) {
	t.Parallel()
	playAll(t, filepath.Join("testdata", "conformance"))
}

// TestSessionCasesFurther plays cases that are not part of the repository.
func TestSessionCasesFurther(t *testing.T) {
	t.Parallel()
	playAll(t, casetest.Further(t, casesDir))
}

// TestSessionCasesDeviations checks the better forms of the cases that differ on purpose.
func TestSessionCasesDeviations(t *testing.T) {
	t.Parallel()
	listed := casetest.Deviating(t)
	if len(listed) == 0 || len(listed) > 10 {
		t.Errorf("%d cases deviate, want 1 to 10", len(listed))
	}
	for _, c := range loadCases(t, filepath.Join("testdata", "deviations")) {
		if !listed[c.number()] {
			t.Errorf("%s is not listed", c.Name)
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.play(t)
		})
	}
}

func playAll(t *testing.T, dir string) {
	t.Helper()
	listed := casetest.Deviating(t)
	for _, c := range loadCases(t, dir) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if listed[c.number()] {
				c = c.better(t)
			}
			c.play(t)
		})
	}
}

// better returns the form in which a case that differs on purpose is played: the one in testdata/deviations, or else
// one in which a file that is not empty is refused.
func (c *sessionCase) better(t *testing.T) *sessionCase {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "deviations", c.number()+"-*.json"))
	if err != nil || len(files) > 1 {
		t.Fatalf("%v: %v", files, err)
	}
	if len(files) == 1 {
		return loadCase(t, files[0])
	}
	refused := *c
	refused.Refused = len(blank.ReplaceAll(c.fileText(t), nil)) > 0
	return &refused
}

var blank = regexp.MustCompile(`\s+`)

// A sessionCase is a recorded case, or an additional one in the format of the recordings.
type sessionCase struct {
	Name, Why, Kind string

	Lines          []json.RawMessage
	NoFinalNewline bool
	Memory         bool
	Steps          []step
	// Refused is true if the file is not a session's and must stay unchanged. Recordings do not have this member.
	Refused bool

	Text               string
	Files              map[string][]json.RawMessage
	Entries            []json.RawMessage
	Messages           []json.RawMessage
	Usages             []json.RawMessage
	Calls              []caseCall
	Settings           json.RawMessage
	Model              caseModel
	ThinkingLevel      string
	CustomInstructions string
	Options            caseOptions
	Replies            []caseReply
	Budget             int64

	Expected json.RawMessage
}

// A caseCall has the arguments of one call of any kind.
type caseCall struct {
	Tokens, Window        int64
	Settings              json.RawMessage
	Index, Start          int
	End                   *int
	Keep                  int64
	From, To              string
	Read, Written, Edited []string
}

type caseModel struct {
	Reasoning     bool
	ContextWindow int64
}

type caseOptions struct {
	CustomInstructions  string
	ReplaceInstructions bool
	ReserveTokens       int64
}

type caseReply struct {
	Text         json.RawMessage
	StopReason   string
	ErrorMessage string
}

// number returns the number at the beginning of a case's name.
func (c *sessionCase) number() string { return c.Name[:3] }

func loadCases(t *testing.T, dir string) []*sessionCase {
	t.Helper()
	return casetest.Load(t, dir, decodeCase(t))
}

func loadCase(t *testing.T, file string) *sessionCase {
	t.Helper()
	return casetest.One(t, file, decodeCase(t))
}

func decodeCase(t *testing.T) func(data []byte) (*sessionCase, error) {
	return func(data []byte) (*sessionCase, error) {
		c := new(sessionCase)
		return c, json.Unmarshal(expanded(t, data), c)
	}
}
