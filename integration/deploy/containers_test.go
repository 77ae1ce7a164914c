//go:build unix

package deploy_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// container is a container of compose.yaml or a manifest. program is the program of the project that it runs, or "".
type container struct {
	where, image, program string
	args                  []string
	env                   map[string]bool
}

// documents are those of a YAML file, decoded as they are.
func documents(t *testing.T, path string) (all []map[string]any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewDecoder(f); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, doc)
	}
}

// at is the value at a path of names, nil if there is none.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func list(v any) []any { l, _ := v.([]any); return l }

func text(v any) string { s, _ := v.(string); return s }

func number(v any) uint64 { n, _ := v.(uint64); return n }

func texts(v any) (all []string) {
	for _, one := range list(v) {
		all = append(all, text(one))
	}
	return all
}

// containers are all that are run.
func containers(t *testing.T) (all []container) {
	t.Helper()
	file := filepath.Join(deploy, "compose.yaml")
	services, _ := at(documents(t, file)[0], "services").(map[string]any)
	for name, s := range services {
		c := container{where: "compose.yaml, " + name, image: text(at(s, "image")), args: texts(at(s, "command")),
			env: map[string]bool{}}
		env, _ := at(s, "environment").(map[string]any)
		for variable := range env {
			c.env[variable] = true
		}
		all = append(all, c)
	}
	for _, w := range workloads(t) {
		for _, one := range list(at(w.pod, "containers")) {
			c := container{where: w.where, image: text(at(one, "image")), args: texts(at(one, "args")), env: map[string]bool{}}
			for _, e := range list(at(one, "env")) {
				c.env[text(at(e, "name"))] = true
			}
			all = append(all, c)
		}
	}
	for i, c := range all {
		if name, ok := strings.CutPrefix(c.image, "loopbus/"); ok {
			all[i].program = name
		}
	}
	return all
}

// stages are the parts of the Dockerfile that make an image, by name.
func stages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, part := range strings.Split(read(t, filepath.Join(deploy, "Dockerfile")), "\nFROM ")[1:] {
		first, _, _ := strings.Cut(part, "\n")
		fields := strings.Fields(first)
		all[fields[len(fields)-1]] = "FROM " + part
	}
	return all
}

// TestImages checks that the images are static, do not run as root, and use the Go version of the module.
func TestImages(t *testing.T) {
	t.Parallel()
	all := stages(t)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../../go.mod"))[1]
	if !strings.HasPrefix(all["build"], "FROM golang:"+version+"-") {
		t.Errorf("go.mod asks for Go %s: %.60s", version, all["build"])
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "-tags=grpcnotrace", "-ldflags='-s -w'"} {
		if !strings.Contains(all["build"], want) || !strings.Contains(read(t, "../../.ci/run"), want) {
			t.Errorf("the Dockerfile, or the measurement in .ci/run, builds without %s", want)
		}
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`)
	for _, name := range []string{"runner", "toolworker", "replay"} {
		stage := all[name]
		if m := user.FindStringSubmatch(stage); m == nil || m[1] == "0" || m[2] == "0" {
			t.Errorf("the image of %s has no user, or root:\n%s", name, stage)
		}
		if !strings.Contains(stage, `ENTRYPOINT ["/usr/local/bin/`+name+`"]`) ||
			!strings.Contains(stage, "COPY --from=build /out/"+name+" /usr/local/bin/"+name+"\n") ||
			!strings.Contains(all["build"], "./cmd/"+name) {
			t.Errorf("the image of %s does not run it:\n%s", name, stage)
		}
	}
	for _, name := range []string{"runner", "replay"} {
		if !strings.HasPrefix(all[name], "FROM scratch ") {
			t.Errorf("the image of %s holds more than it: %.60s", name, all[name])
		}
	}
	for _, c := range containers(t) {
		if c.program != "" && all[c.program] == "" {
			t.Errorf("%s: nothing makes the image %s", c.where, c.image)
		}
		if c.program == "" && (!strings.Contains(c.image, ":") || strings.HasSuffix(c.image, ":latest")) {
			t.Errorf("%s: the image %s has no version", c.where, c.image)
		}
	}
}

// TestComposeConfines checks that the project's containers and NATS have no capabilities and a read-only file system.
func TestComposeConfines(t *testing.T) {
	t.Parallel()
	doc := documents(t, filepath.Join(deploy, "compose.yaml"))[0]
	services, _ := at(doc, "services").(map[string]any)
	for name, s := range services {
		if at(s, "profiles") != nil {
			continue // not ours
		}
		if !slices.Equal(texts(at(s, "cap_drop")), []string{"ALL"}) || at(s, "read_only") != true ||
			!slices.Contains(texts(at(s, "security_opt")), "no-new-privileges:true") {
			t.Errorf("%s is not confined", name)
		}
		for _, p := range texts(at(s, "ports")) {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is open to others", name, p)
			}
		}
	}
	if got := texts(at(services["toolworker"], "networks")); !slices.Equal(got, []string{"bus"}) ||
		at(doc, "networks", "bus", "internal") != true {
		t.Errorf("what models run has a way outside: %v", got)
	}
	example := read(t, filepath.Join(deploy, ".env.example"))
	variable := regexp.MustCompile(`\$\{(\w+)`)
	for _, v := range variable.FindAllStringSubmatch(read(t, filepath.Join(deploy, "compose.yaml")), -1) {
		if !strings.Contains(example, "\n"+v[1]+"=") {
			t.Errorf(".env.example lacks %s", v[1])
		}
	}
}
