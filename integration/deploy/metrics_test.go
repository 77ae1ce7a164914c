//go:build unix

package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// exported are the labels of each metric that programs export, by name.
type exported map[string]map[string]bool

var sample = regexp.MustCompile(`^([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})? \S+`)

var labelName = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_]*)="`)

// scrape adds what a program exports.
func (e exported) scrape(p *program) {
	p.t.Helper()
	code, body := p.get("/metrics")
	if code != 200 {
		p.t.Fatalf("/metrics of %s: %d %s", p.name, code, body)
	}
	for line := range strings.Lines(body) {
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if e[m[1]] == nil {
			e[m[1]] = map[string]bool{"job": true, "instance": true}
		}
		for _, l := range labelName.FindAllStringSubmatch(m[2], -1) {
			e[m[1]][l[1]] = true
		}
	}
}

// check checks that the metrics and labels of an expression are exported.
func (e exported) check(t *testing.T, where, expr string) {
	t.Helper()
	u, err := uses(expr)
	if err != nil || len(u.metrics) == 0 {
		t.Errorf("%s: %v: %s", where, err, expr)
	}
	of := map[string]bool{}
	for _, m := range u.metrics {
		if e[m] == nil {
			t.Errorf("%s names %s, which nobody exports", where, m)
		}
		for _, l := range u.labels[m] {
			if !e[m][l] {
				t.Errorf("%s selects %s by %s, which it does not have", where, m, l)
			}
		}
		maps.Copy(of, e[m])
	}
	for _, l := range u.groups {
		if !of[l] {
			t.Errorf("%s groups by %s, which none of %v has", where, l, u.metrics)
		}
	}
}

// TestWhatIsShippedWorks runs the programs of compose.yaml with the permissions of nats.conf, makes a session call two
// tools, and compares the dashboard, the alert rules and the documented metrics with the exported metrics.
func TestWhatIsShippedWorks(t *testing.T) {
	w := newWorld(t)
	got := w.prompt("s1", "!echo shipped > f; cat f\ncall read {\"path\":\"f\"}")
	if !slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, "bash false: shipped") }) {
		t.Errorf("the results are %q", got)
	}
	names := exported{}
	for _, p := range w.programs {
		names.scrape(p)
		if log := read(t, p.log); strings.Contains(strings.ToLower(log), "permissions violation") {
			t.Errorf("%s tried what it may not:\n%s", p.name, log)
		}
	}
	checkDashboard(t, names)
	checkRules(t, names)
	checkTable(t, names)
}

// checkDashboard reads the expressions of Grafana's dashboard.
func checkDashboard(t *testing.T, names exported) {
	t.Helper()
	var board struct {
		UID, Title string
		Templating struct{ List []struct{ Name string } }
		Panels     []struct {
			ID      int
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(deploy, "grafana/loopbus.json"))), &board); err != nil {
		t.Fatal(err)
	}
	known := []string{"__rate_interval", "__range"}
	for _, v := range board.Templating.List {
		known = append(known, v.Name)
	}
	ids, n := map[int]bool{}, 0
	for _, p := range board.Panels {
		if ids[p.ID] || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d, %s: the id is used twice, or nothing is shown", p.ID, p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			n++
			names.check(t, "panel "+p.Title, target.Expr)
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(known, v[1]) {
					t.Errorf("panel %s: no variable %s", p.Title, v[0])
				}
			}
		}
	}
	if n < 20 {
		t.Errorf("the dashboard has %d expressions: this test does not see what it looks for", n)
	}
}

// checkRules reads the alert rules.
func checkRules(t *testing.T, names exported) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	text := read(t, filepath.Join(deploy, "prometheus/alerts.yml"))
	if err := yaml.UnmarshalWithOptions([]byte(text), &rules, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("alert %s is there twice, or has no severity or summary", r.Alert)
			}
			seen[r.Alert] = true
			names.check(t, "alert "+r.Alert, r.Expr)
		}
	}
	if len(seen) < 10 {
		t.Errorf("there are %d alerts: this test does not see what it looks for", len(seen))
	}
}

// suffix are those of a histogram's series.
var suffix = regexp.MustCompile(`_(bucket|sum|count)$`)

// checkTable compares the table of docs/operations.md with the exported metrics and labels, in both directions.
func checkTable(t *testing.T, names exported) {
	t.Helper()
	text := read(t, "../../docs/operations.md")
	_, section, _ := strings.Cut(text, "\n## Metrics\n")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	documented := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`loopbus_") {
			continue
		}
		var labels []string
		for _, l := range quoted.FindAllStringSubmatch(cells[2], -1) {
			labels = append(labels, l[1])
		}
		for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
			documented[m[1]] = fmt.Sprint(slices.Sorted(slices.Values(labels)))
		}
	}
	got := map[string]string{}
	for m, labels := range names {
		base := suffix.ReplaceAllString(m, "")
		if !strings.HasPrefix(m, "loopbus_") {
			continue
		}
		if names[base+"_bucket"] == nil {
			base = m
		}
		own := maps.Clone(labels)
		for _, l := range []string{"job", "instance", "le"} {
			delete(own, l)
		}
		got[base] = fmt.Sprint(slices.Sorted(maps.Keys(own)))
	}
	for m, labels := range got {
		if documented[m] != labels {
			t.Errorf("docs/operations.md has for %s the labels %s, and it is exported with %s", m, documented[m], labels)
		}
	}
	for m := range documented {
		if got[m] == "" {
			t.Errorf("docs/operations.md has %s, which nobody exports", m)
		}
	}
}
