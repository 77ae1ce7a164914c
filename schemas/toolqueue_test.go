package schemas_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestToolQueueNames(t *testing.T) {
	for queue, want := range map[schemas.ToolQueue][2]string{
		{Tool: "bash"}:                               {"bash", "bash"},
		{Tool: "bash", Version: "2"}:                 {"bash=2", "bash version 2"},
		{Tool: "bash", Workspace: "w"}:               {"bash==w", "bash in workspace w"},
		{Tool: "bash", Version: "2", Workspace: "w"}: {"bash=2=w", "bash version 2 in workspace w"},
	} {
		if name, text := queue.Name(), queue.String(); name != want[0] || text != want[1] {
			t.Errorf("%+v: %q, %q", queue, name, text)
		}
		if got, err := schemas.ParseToolQueue(queue.Name()); got != queue || err != nil {
			t.Errorf("%s: %+v, %v", queue.Name(), got, err)
		}
	}
	long := strings.Repeat("t", 65)
	for _, name := range []string{"", "=", "=2", "bash=", "bash==", "bash=2=", "bash=2=w=x", "ba.sh", "bash=1.2",
		"bash==*", long} {
		if q, err := schemas.ParseToolQueue(name); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%q: %+v, %v", name, q, err)
		}
	}
}

func TestCompareToolVersions(t *testing.T) {
	sorted := []string{"", "0", "1", "2", "2-1", "2-2", "2-10", "9", "10", "2026-01-31", "v2", "v2b", "v10"}
	for i, a := range sorted {
		for j, b := range sorted {
			got, want := schemas.CompareToolVersions(a, b), slices.Index([]bool{i < j, i == j, i > j}, true)-1
			if max(min(got, 1), -1) != want {
				t.Errorf("%q, %q: %d, want %d", a, b, got, want)
			}
		}
	}
	if schemas.CompareToolVersions("02", "2") != 0 { // of which the newest announcement counts
		t.Error("leading zeros make a difference")
	}
}

func TestEffectClass(t *testing.T) {
	yes, no := true, false
	for _, test := range []struct {
		effect schemas.Effect
		hints  *schemas.ToolAnnotations
		want   schemas.Effect
	}{
		{"", nil, ""},
		{"", &schemas.ToolAnnotations{Title: "t", DestructiveHint: &no, OpenWorldHint: &no}, ""},
		{"", &schemas.ToolAnnotations{ReadOnlyHint: &yes}, schemas.EffectReadOnly},
		{"", &schemas.ToolAnnotations{ReadOnlyHint: &no, IdempotentHint: &yes}, schemas.EffectIdempotent},
		{"", &schemas.ToolAnnotations{ReadOnlyHint: &yes, IdempotentHint: &yes}, schemas.EffectReadOnly},
		{schemas.EffectUnsafe, &schemas.ToolAnnotations{ReadOnlyHint: &yes}, schemas.EffectUnsafe},
		{schemas.EffectIdempotent, &schemas.ToolAnnotations{ReadOnlyHint: &yes}, schemas.EffectIdempotent},
	} {
		if got := (schemas.ToolDefinition{Effect: test.effect, Annotations: test.hints}).EffectClass(); got != test.want {
			t.Errorf("%q, %+v: %q, want %q", test.effect, test.hints, got, test.want)
		}
	}
}
