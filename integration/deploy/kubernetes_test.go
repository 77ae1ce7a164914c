//go:build unix

package deploy_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// workload is what makes pods, in a manifest.
type workload struct {
	where, kind, name string
	replicas          uint64
	labels            map[string]any
	pod               any // its spec
}

// manifests are the objects of docs/deploy/kubernetes.
func manifests(t *testing.T) (all []map[string]any) {
	t.Helper()
	for _, file := range files(t, "kubernetes/*.yaml") {
		all = append(all, documents(t, file)...)
	}
	return all
}

func workloads(t *testing.T) (all []workload) {
	t.Helper()
	for _, m := range manifests(t) {
		if pod := at(m, "spec", "template", "spec"); pod != nil {
			labels, _ := at(m, "spec", "template", "metadata", "labels").(map[string]any)
			name, kind := text(at(m, "metadata", "name")), text(at(m, "kind"))
			all = append(all, workload{"kubernetes, " + kind + " " + name, kind, name, number(at(m, "spec", "replicas")),
				labels, pod})
		}
	}
	if len(all) != 3 {
		t.Fatalf("%d workloads: this test does not see what it looks for", len(all))
	}
	return all
}

// TestPodsAreConfined checks pods against the restricted security standard, and that they have resource limits.
func TestPodsAreConfined(t *testing.T) {
	t.Parallel()
	for _, w := range workloads(t) {
		security := at(w.pod, "securityContext")
		if at(security, "runAsNonRoot") != true || number(at(security, "runAsUser")) == 0 ||
			text(at(security, "seccompProfile", "type")) != "RuntimeDefault" {
			t.Errorf("%s may be root, or has no filter of system calls", w.where)
		}
		if at(w.pod, "automountServiceAccountToken") != false || text(at(w.pod, "serviceAccountName")) != w.name {
			t.Errorf("%s may talk to the API server", w.where)
		}
		if w.replicas < 2 {
			t.Errorf("%s has %d replicas", w.where, w.replicas)
		}
		for _, c := range list(at(w.pod, "containers")) {
			own := at(c, "securityContext")
			if at(own, "allowPrivilegeEscalation") != false || at(own, "readOnlyRootFilesystem") != true ||
				!slices.Equal(texts(at(own, "capabilities", "drop")), []string{"ALL"}) {
				t.Errorf("%s has powers or may write its image", w.where)
			}
			if at(c, "resources", "limits", "memory") == nil || at(c, "resources", "requests", "cpu") == nil {
				t.Errorf("%s has no limits", w.where)
			}
			image := stages(t)[strings.TrimPrefix(text(at(c, "image")), "loopbus/")]
			user := strconv.FormatUint(number(at(security, "runAsUser")), 10)
			if image != "" && !strings.Contains(image, "USER "+user+":"+user) {
				t.Errorf("%s runs as %s, which is not the image's user", w.where, user)
			}
		}
	}
}

// TestProbes checks that probes use the paths and the port that the programs serve, and that pods have time to stop.
func TestProbes(t *testing.T) {
	t.Parallel()
	for _, w := range workloads(t) {
		c := list(at(w.pod, "containers"))[0]
		ports := map[string]uint64{}
		for _, p := range list(at(c, "ports")) {
			ports[text(at(p, "name"))] = number(at(p, "containerPort"))
		}
		serves := uint64(8222) // of NATS, see TestPermissions
		if w.name != "nats" {
			serves = 8080
			if !slices.Contains(texts(at(c, "args")), "--http=0.0.0.0:8080") ||
				!strings.Contains(stages(t)[w.name], "EXPOSE 8080\n") {
				t.Errorf("%s does not serve at 8080", w.where)
			}
		}
		for probe, path := range map[string]string{"startupProbe": "/readyz", "readinessProbe": "/readyz",
			"livenessProbe": "/healthz"} {
			get := at(c, probe, "httpGet")
			got, _, _ := strings.Cut(text(at(get, "path")), "?")
			if w.name == "nats" {
				path = "/healthz"
			}
			if got != path || ports[text(at(get, "port"))] != serves {
				t.Errorf("%s: %s asks for %s at port %d", w.where, probe, got, ports[text(at(get, "port"))])
			}
		}
		// The programs' --stop-timeout is 10 s; a worker answers what it cut off for ten seconds more.
		grace := time.Duration(number(at(w.pod, "terminationGracePeriodSeconds"))) * time.Second
		if grace < 25*time.Second {
			t.Errorf("%s gets %s to stop", w.where, grace)
		}
	}
}

// TestBudgetsAndPolicies checks that each workload has a disruption budget that allows some disruption, and that
// network policies select existing pods.
func TestBudgetsAndPolicies(t *testing.T) {
	t.Parallel()
	pods := map[string]workload{}
	for _, w := range workloads(t) {
		pods[text(w.labels["app"])] = w
	}
	budgets, policies := map[string]bool{}, map[string]bool{}
	for _, m := range manifests(t) {
		name := text(at(m, "metadata", "name"))
		if kind := text(at(m, "kind")); kind != "Namespace" && text(at(m, "metadata", "namespace")) != "loopbus" {
			t.Errorf("%s %s is in no namespace", kind, name)
		}
		switch text(at(m, "kind")) {
		case "PodDisruptionBudget":
			app := text(at(m, "spec", "selector", "matchLabels", "app"))
			w, ok := pods[app]
			least, most := number(at(m, "spec", "minAvailable")), number(at(m, "spec", "maxUnavailable"))
			if !ok || least >= w.replicas || least == 0 && most == 0 {
				t.Errorf("the budget %s is for no pods, or for all of them", name)
			}
			if app == "nats" && (most != 1 || w.replicas != 3) {
				t.Errorf("%d of %d NATS servers may be away: two have to be up", most, w.replicas)
			}
			budgets[app] = true
		case "NetworkPolicy":
			app := text(at(m, "spec", "podSelector", "matchLabels", "app"))
			if _, ok := pods[app]; app != "" && !ok {
				t.Errorf("the policy %s is for no pods", name)
			}
			policies[name] = true
		case "Service":
			if _, ok := pods[text(at(m, "spec", "selector", "app"))]; !ok {
				t.Errorf("the service %s is for no pods", name)
			}
		}
	}
	for app := range pods {
		if !budgets[app] || !policies[app] {
			t.Errorf("%s has no budget or no policy", app)
		}
	}
	if !policies["default-deny"] {
		t.Error("what no policy is about is allowed")
	}
}

// TestKustomization checks that the kustomization lists every manifest and every file of NATS.
func TestKustomization(t *testing.T) {
	t.Parallel()
	doc := documents(t, filepath.Join(deploy, "kustomization.yaml"))[0]
	var want []string
	for _, f := range files(t, "kubernetes/*.yaml") {
		want = append(want, "kubernetes/"+filepath.Base(f))
	}
	got := texts(at(doc, "resources"))
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("resources are %v, want %v", got, want)
	}
	for _, generated := range list(at(doc, "configMapGenerator")) {
		for _, f := range texts(at(generated, "files")) {
			read(t, filepath.Join(deploy, f))
		}
	}
}
