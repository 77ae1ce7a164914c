package providers_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/partialjson"
	"github.com/loopbus/loopbus/schemas"
)

// unitFunctions maps the recorded functions to this module's. Each takes the recorded arguments and returns a value
// that can be encoded as JSON.
var unitFunctions = map[string]func(args []json.RawMessage) (any, error){
	"parseStreamingJson": func(args []json.RawMessage) (any, error) {
		return providers.PartialArguments(arg[string](args, 0)), nil
	},
	"parseJsonWithRepair": func(args []json.RawMessage) (any, error) {
		if v, ok := partialjson.Repair(arg[string](args, 0)); ok {
			return v, nil
		}
		return nil, fmt.Errorf("no JSON")
	},
	"isContextOverflow": func(args []json.RawMessage) (any, error) {
		m := arg[schemas.AssistantMessage](args, 0)
		return providers.IsContextOverflow(&m, arg[int64](args, 1)), nil
	},
	"shortHash": func(args []json.RawMessage) (any, error) {
		return providers.ShortHash(arg[string](args, 0)), nil
	},
	"sanitizeSurrogates": func(args []json.RawMessage) (any, error) {
		return providers.CleanText(halves(arg[string](args, 0))), nil
	},
	"clampThinkingLevel": func(args []json.RawMessage) (any, error) {
		m := arg[providers.Model](args, 0)
		return m.Clamp(arg[schemas.ThinkingLevel](args, 1)), nil
	},
	"getSupportedThinkingLevels": func(args []json.RawMessage) (any, error) {
		m := arg[providers.Model](args, 0)
		return m.SupportedLevels(), nil
	},
	"adjustMaxTokensForThinking": func(args []json.RawMessage) (any, error) {
		maxTokens, budget := providers.FitThinking(arg[int64](args, 0), arg[int64](args, 1),
			arg[schemas.ThinkingLevel](args, 2), arg[map[schemas.ThinkingLevel]int64](args, 3))
		return object{"maxTokens": maxTokens, "thinkingBudget": budget}, nil
	},
	"calculateCost": func(args []json.RawMessage) (any, error) {
		m := arg[providers.Model](args, 0)
		return m.Price(arg[schemas.Usage](args, 1)), nil
	},
}

// arg decodes an argument. A missing one is the zero value.
func arg[T any](args []json.RawMessage, i int) (v T) {
	if i < len(args) {
		if err := json.Unmarshal(args[i], &v); err != nil {
			panic(err)
		}
	}
	return v
}

type unit struct {
	Function string `json:"function"`
	Cases    []struct {
		Args   []json.RawMessage `json:"args"`
		Result any               `json:"result"`
		Threw  bool              `json:"threw"`
	} `json:"cases"`
}

// unitsEnv is the environment variable with the path of another file of units.
const unitsEnv = "LOOPBUS_PROVIDER_UNITS"

// TestUnits compares the results of single functions with those of the reference.
func TestUnits(t *testing.T) {
	t.Parallel()
	files := []string{"testdata/units.json"}
	if more := os.Getenv(unitsEnv); more != "" {
		files = append(files, more)
	} else {
		t.Run(unitsEnv, func(t *testing.T) { t.Skip(unitsEnv + " names no further file") })
	}
	for _, file := range files {
		t.Run(file, func(t *testing.T) { playUnits(t, file) })
	}
}

func playUnits(t *testing.T, file string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var units struct {
		Functions []unit `json:"functions"`
	}
	if err := json.Unmarshal(markHalves(raw), &units); err != nil {
		t.Fatal(err)
	}
	for _, u := range units.Functions {
		f := unitFunctions[u.Function]
		if f == nil {
			t.Errorf("no function %s", u.Function)
			continue
		}
		for i, c := range u.Cases {
			got, err := f(c.Args)
			what := fmt.Sprintf("%s %d %s", u.Function, i, c.Args)
			if c.Threw != (err != nil) {
				t.Errorf("%s: %s, %v; should fail: %t", what, jsonText(got), err, c.Threw)
			} else if d := cmp.Diff(c.Result, jsonValue(got), roundedCosts); err == nil && d != "" {
				t.Errorf("%s (-want +got):\n%s", what, d)
			}
		}
	}
	if len(units.Functions) == 0 {
		t.Error("no functions")
	}
}

func jsonText(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// jsonValue returns v encoded as JSON and decoded again.
func jsonValue(v any) (out any) {
	raw, err := schemas.Marshal(v)
	if err == nil {
		err = json.NewDecoder(strings.NewReader(string(raw))).Decode(&out)
	}
	if err != nil {
		panic(err)
	}
	return out
}
