package all_test

import (
	"os"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers/all"
	"github.com/loopbus/loopbus/providers/catalogue"
	"github.com/loopbus/loopbus/schemas"
)

// TestEveryModelHasAnAPI checks that there is a package for the API of every model in the built-in catalogue.
func TestEveryModelHasAnAPI(t *testing.T) {
	t.Parallel()
	models, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalogue.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Models() {
		if err := models.Check(m.Ref()); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryPackageIsThere checks that APIs contains all API packages of this module, by the names of their folders.
func TestEveryPackageIsThere(t *testing.T) {
	t.Parallel()
	apis := map[string]bool{}
	for id := range all.APIs() {
		apis[strings.ReplaceAll(id, "-", "")] = true
	}
	none := map[string]bool{"all": true, "catalogue": true, "gateway": true, "internal": true, "keys": true, "limit": true,
		"rehearsal": true, "scripted": true, "testdata": true}
	folders, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && apis[f.Name()] == none[f.Name()] {
			t.Errorf("package %s: among the APIs: %t", f.Name(), apis[f.Name()])
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	models, err := all.New(all.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := schemas.ModelRef{API: "anthropic-messages", Provider: "anthropic", ID: "claude-haiku-4-5"}
	if got, err := models.Find("haiku"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := models.Find("claude-haiku-9"); err == nil || !strings.Contains(err.Error(), "did you mean") {
		t.Errorf("a model that is not there: %v", err)
	}
	for e := range models.Stream(t.Context(), schemas.ModelRequest{Model: want}) {
		if e.FailureCode != schemas.FailureAuth {
			t.Errorf("without a key: %s %s", e.Type, e.FailureCode)
		}
	}
}
