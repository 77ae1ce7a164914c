package sourcetree_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const modulePath = "github.com/loopbus/loopbus"

// An importRule lists what the packages below a folder may import in addition to the standard library and their own
// folder: ours are folders of this module, others are prefixes of other modules and packages. The rule with the longest
// matching folder applies to a package.
type importRule struct {
	folder string
	ours   []string
	others []string
}

var (
	natsClient = "github.com/nats-io/nats.go"
	natsServer = "github.com/nats-io/nats-server/v2/server"
	watermill  = "github.com/ThreeDotsLabs/watermill"
	prometheus = "github.com/prometheus/client_golang/prometheus"
	cloudEvent = "github.com/cloudevents/sdk-go/v2/event"
	webSocket  = "github.com/coder/websocket"
	goCmp      = "github.com/google/go-cmp/cmp"
)

// loopInternals are packages that only the packages around the loop may import.
var loopInternals = []string{"loop/internal/panics", "loop/internal/background", "loop/internal/commands",
	"loop/internal/jsonroom"}

// importRules is the import table. It does not restrict tests. A package without a rule fails the test: a new folder
// needs a decision.
var importRules = []importRule{
	{"schemas", []string{"schemas/turns"}, []string{"github.com/santhosh-tekuri/jsonschema/v5"}},
	{"schemas/casetest", nil, nil},
	{"schemas/keycache", nil, nil},
	{"schemas/priority", nil, nil},
	{"schemas/progress", []string{"schemas"}, nil},
	{"schemas/redact", nil, nil},
	{"schemas/turns", nil, nil},
	{"schemas/toolargs", []string{"schemas"}, []string{"github.com/dlclark/regexp2/v2"}},
	{"schemas/toolargs/cached", []string{"schemas"}, nil},
	{"sessionfile", []string{"schemas"}, nil},
	{"loop", []string{"schemas", "loop/compaction"}, nil},
	{"loop/agentevent", []string{"loop", "schemas"}, nil},
	{"loop/compaction", []string{"schemas"}, nil},
	{"loop/internal/panics", nil, nil},
	{"loop/internal/background", nil, nil},
	{"loop/internal/commands", []string{"schemas"}, nil},
	{"loop/internal/jsonroom", []string{"schemas"}, nil},
	{"loop/internal/looptest", []string{"loop", "loop/driver", "loop/host", "schemas", "eventstore"}, nil},
	{"loop/prompt", []string{"schemas"}, nil},
	{"loop/view", []string{"loop", "schemas"}, nil},
	{"loop/driver", append([]string{"loop", "loop/agentevent", "loop/compaction", "schemas"}, loopInternals...), nil},
	{"loop/driver/drivertest", []string{"loop/driver", "schemas"}, nil},
	{"loop/host", append([]string{"loop", "loop/driver", "loop/prompt", "schemas"}, loopInternals...), nil},
	{"loop/agent", append([]string{"loop", "loop/driver", "loop/agentevent", "schemas", "tools"}, loopInternals...), nil},
	{"eventstore", []string{"schemas", "bus/natsio", "bus/pubsub"}, []string{natsClient}},
	{"eventstore/eventstoretest", []string{"schemas", "eventstore"}, []string{goCmp}},
	{"bus", []string{"schemas", "bus/dial", "bus/natsio"}, []string{natsClient}},
	{"bus/natsio", []string{"schemas/turns", "bus/headerlimit"}, []string{natsClient}},
	{"bus/dial", []string{"bus/headerlimit"}, []string{natsClient}},
	{"bus/headerlimit", nil, nil},
	{"bus/labels", nil, nil},
	{"bus/pubsub", []string{"schemas", "bus/natsio"}, []string{natsClient, watermill}},
	{"bus/client", []string{"schemas", "bus/dial", "bus/natsio", "bus/shares"}, []string{natsClient}},
	{"bus/client/js", nil, nil},
	{"bus/codec", []string{"schemas"}, []string{natsClient, cloudEvent, "github.com/cloudevents/sdk-go/v2/types"}},
	{"bus/streams", []string{"schemas", "bus", "bus/natsio"}, []string{natsClient}},
	{"bus/embedded", []string{"schemas", "bus/streams"}, []string{natsServer}},
	{"bus/inbox", []string{"schemas", "bus", "bus/natsio", "bus/codec", "bus/headerlimit", "bus/pubsub", "bus/shares",
		"bus/streams"},
		[]string{natsClient, prometheus}},
	{"bus/permissions", []string{"schemas"}, nil},
	{"bus/natsws", []string{"bus/upgrade"}, []string{webSocket}},
	{"bus/upgrade", []string{"bus/shares"}, []string{webSocket}},
	{"bus/web", nil, nil},
	{"bus/bridge", []string{"schemas", "loop", "bus/client", "bus/shares", "bus/upgrade", "tools", "tools/worker"},
		[]string{natsClient, webSocket}},
	{"bus/registry", []string{"schemas", "bus", "bus/natsio", "bus/codec", "bus/headerlimit"},
		[]string{natsClient, "golang.org/x/time/rate"}},
	{"bus/dispatch", []string{"schemas", "bus", "bus/natsio", "bus/codec", "bus/registry",
		"bus/backlog"}, []string{natsClient}},
	{"bus/watchdog", []string{"schemas", "bus", "bus/natsio"}, []string{natsClient}},
	{"bus/sweep", []string{"schemas", "bus", "bus/natsio", "bus/codec"}, []string{natsClient}},
	{"bus/live", []string{"schemas", "bus"}, []string{natsClient}},
	{"bus/backlog", nil, []string{natsClient}},
	{"bus/shares", nil, nil},
	{"bus/models", []string{"schemas", "bus", "bus/natsio", "bus/shares", "bus/backlog"}, []string{natsClient}},
	{"bus/service", []string{"schemas", "bus/shares"}, []string{natsClient}},
	{"bus/queries", []string{"schemas", "bus", "bus/natsio", "bus/service"}, []string{natsClient, "golang.org/x/sync"}},
	{"bus/retention", []string{"schemas", "bus", "bus/natsio", "bus/codec", "bus/queries", "eventstore"},
		[]string{natsClient}},
	{"bus/bustest/ports", nil, nil},
	{"bus/bustest", []string{"schemas", "bus", "bus/bustest/ports", "bus/client", "bus/embedded", "bus/inbox",
		"bus/permissions", "bus/streams"},
		[]string{"go.uber.org/goleak", natsClient, natsServer}},
	{"tools", []string{"schemas"}, []string{"github.com/invopop/jsonschema", "golang.org/x/image", "golang.org/x/text",
		"github.com/bmatcuk/doublestar/v4", "golang.org/x/sync/semaphore", "golang.org/x/sys/unix", "golang.org/x/net/bpf"}},
	{"tools/flatyaml", nil, []string{"github.com/goccy/go-yaml"}},
	{"tools/resources", []string{"schemas", "tools", "tools/flatyaml"}, nil},
	{"tools/extension", []string{"schemas", "tools", "bus/client"}, nil},
	{"tools/mcp", []string{"schemas", "tools"}, []string{"github.com/modelcontextprotocol/go-sdk"}},
	{"tools/worker", []string{"schemas", "tools", "bus/dial", "bus/natsio", "bus/pubsub", "bus/labels"},
		[]string{natsClient, watermill, prometheus}},
	// Not the root package of OpenAI's SDK: it would link the types of all services (decision 92).
	{"providers", []string{"schemas"}, []string{"github.com/anthropics/anthropic-sdk-go",
		"github.com/openai/openai-go/v3/option", "github.com/openai/openai-go/v3/packages/param",
		"github.com/openai/openai-go/v3/responses",
		"cloud.google.com/go/auth", "github.com/aws/aws-sdk-go-v2", "github.com/aws/smithy-go",
		"github.com/santhosh-tekuri/jsonschema/v5"}},
	{"console", []string{"bus/client/js"}, nil},
	{"console/bundle", nil, []string{"github.com/evanw/esbuild/pkg/api"}},
	{"cmd", []string{"schemas", "loop", "eventstore", "bus", "tools", "providers", "cmd/wiring", "sessionfile", "console"},
		[]string{natsClient, natsServer, watermill, prometheus, cloudEvent,
			"go.opentelemetry.io/otel", "golang.org/x/sync", "golang.org/x/time/rate", "github.com/alecthomas/kong",
			"golang.org/x/term"}},
	{"docs/examples", []string{"schemas", "tools", "tools/worker"}, []string{natsClient}},
	{"cmd/wiring", []string{"schemas", "loop", "eventstore", "bus", "tools"}, []string{prometheus, natsClient,
		"golang.org/x/sync"}},
	{"integration", []string{"schemas", "loop", "eventstore", "bus", "tools", "providers", "cmd/wiring", "console"},
		[]string{natsClient, watermill, "golang.org/x/sys/unix"}},
}

// pureImports are the packages of the standard library that the loop may import. It uses time only for values in
// events;
// TestLoopAsksNothing checks that it does not read the clock.
var pureImports = []string{"bytes", "cmp", "crypto/sha256", "encoding/base64", "encoding/binary", "encoding/json",
	"errors", "fmt", "maps", "math", "slices", "strconv", "strings", "time", "unicode/utf16", "unicode/utf8"}

// goPackage has the fields of go list's output that the tests use.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func TestImportTable(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		folder := folderOf(p.ImportPath)
		rule, ok := ruleOf(folder)
		if !ok {
			t.Errorf("package %s has no import rule", folder)
			continue
		}
		for _, path := range p.Imports {
			if !rule.allows(path) {
				t.Errorf("package %s imports %s", folder, path)
			}
		}
	}
}

func TestLoopImportsNothingImpure(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t, "./loop", "./loop/compaction") {
		for _, path := range p.Imports {
			ours := folderOf(path) == "schemas" || folderOf(path) == "loop/compaction"
			if !ours && !slices.Contains(pureImports, path) {
				t.Errorf("package loop imports %s", path)
			}
		}
	}
}

// withServer are the folders whose packages may link a NATS server. No other package links it.
var withServer = []string{"bus/embedded", "bus/bustest", "cmd", "integration"}

func TestNoServerIsLinked(t *testing.T) {
	t.Parallel()
	links := map[string]bool{}
	for _, p := range packages(t, "-deps", "./...") { // dependencies come before those that import them
		links[p.ImportPath] = below(p.ImportPath, "github.com/nats-io/nats-server/v2") ||
			slices.ContainsFunc(p.Imports, func(path string) bool { return links[path] })
		folder := folderOf(p.ImportPath)
		may := slices.ContainsFunc(withServer, func(root string) bool { return below(folder, root) })
		if folder != "" && links[p.ImportPath] && !may {
			t.Errorf("package %s links a NATS server", folder)
		}
	}
	if !links[modulePath+"/cmd/runner"] {
		t.Error("the runner links no NATS server: this test does not see what it looks for")
	}
}

// largeRooms are the packages with more than twenty files, with their maximum (decision 76).
var largeRooms = map[string]int{"schemas": 53}

// TestRoomsAreSmall keeps packages small enough to be overlooked at once: at most twenty files without tests, and no
// file whose name repeats that of the package.
func TestRoomsAreSmall(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		if n, most := len(p.GoFiles), cmp.Or(largeRooms[folderOf(p.ImportPath)], 20); n > most {
			t.Errorf("package %s has %d files, want at most %d", p.ImportPath, n, most)
		}
		for _, file := range p.GoFiles {
			rest, ok := strings.CutPrefix(strings.TrimSuffix(file, ".go"), path.Base(p.ImportPath)+"_")
			if ok && rest != "other" { // jail_other.go is a file for other systems
				t.Errorf("package %s: the name of %s repeats the package's", p.ImportPath, file)
			}
		}
	}
}

func TestRulesSeeWhatIsForbidden(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ folder, path string }{
		{"loop", modulePath + "/bus"},
		{"loop", modulePath + "/loop/driver"},
		{"loop", natsClient},
		{"loop", modulePath + "/loop/agentevent"},
		{"loop/agentevent", modulePath + "/loop/driver"},
		{"loop/driver", modulePath + "/eventstore"},
		{"loop/driver", modulePath + "/loop/host"},
		{"loop/driver", modulePath + "/loop/agent"},
		{"loop/driver", modulePath + "/tools"},
		{"loop/driver", modulePath + "/loop/internal/looptest"},
		{"loop/host", modulePath + "/loop/agent"},
		{"loop/host", modulePath + "/bus"},
		{"loop/host", modulePath + "/tools"},
		{"loop/agent", modulePath + "/loop/host"},
		{"loop/agent", modulePath + "/providers/scripted"},
		{"loop/agent", modulePath + "/eventstore"},
		{"loop/agent", natsClient},
		{"bus", modulePath + "/eventstore"},
		{"eventstore", modulePath + "/bus"},
		{"tools/read", natsClient},
		{"tools/worker", modulePath + "/bus"},
		{"bus/pubsub", modulePath + "/bus"},
		{"bus/pubsub", natsServer},
		{"bus/live", natsServer},
		{"bus/streams", modulePath + "/bus/embedded"},
		{"bus", modulePath + "/bus/streams"},
		{"bus/natsio", modulePath + "/schemas"},
		{"bus/dial", modulePath + "/bus"},
		{"tools/mcp", modulePath + "/docs/examples/dice"},
		{"docs/examples/dice", modulePath + "/bus"},
		{"providers/scripted", modulePath + "/loop"},
		{"schemas", modulePath + "/loop"},
		{"schemas", natsClient + "/jetstream"},
		{"cmd/runner", modulePath + "/integration"},
		{"integration/internal/system", modulePath + "/cmd/internal/toolserve"},
		{"bus/inbox", modulePath + "/cmd/wiring"},
		{"cmd/runner", "github.com/stretchr/testify/assert"},
	} {
		rule, ok := ruleOf(c.folder)
		if !ok || rule.allows(c.path) {
			t.Errorf("%s may import %s", c.folder, c.path)
		}
	}
}

// packages returns the module's packages, from go list.
func packages(t *testing.T, patterns ...string) []goPackage {
	t.Helper()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	list := exec.CommandContext(t.Context(), "go",
		append([]string{"list", "-json=ImportPath,Dir,GoFiles,Imports"}, patterns...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			t.Fatalf("go list: %v\n%s", err, failed.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		t.Fatal("go list returned no package")
	}
	return all
}

// folderOf returns a package's folder in the module; "" for packages of other modules.
func folderOf(path string) string {
	folder, ok := strings.CutPrefix(path, modulePath+"/")
	if !ok {
		return ""
	}
	return folder
}

func ruleOf(folder string) (rule importRule, ok bool) {
	for _, r := range importRules {
		if below(folder, r.folder) && len(r.folder) > len(rule.folder) {
			rule, ok = r, true
		}
	}
	return rule, ok
}

func (r importRule) allows(path string) bool {
	if ours := folderOf(path); ours != "" {
		owner, ok := ruleOf(ours)
		return ok && (owner.folder == r.folder || slices.Contains(r.ours, owner.folder) || allowsPart(r, owner.folder))
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") {
		return true // standard library
	}
	return slices.ContainsFunc(r.others, func(other string) bool { return below(path, other) })
}

// allowsPart reports whether a rule for a folder also allows a folder below it that has a separate rule: schemas
// includes schemas/toolargs, but a package that may import loop may not import loop/driver, unless its rule allows all
// packages.
func allowsPart(r importRule, part string) bool {
	connects := r.folder == "cmd" || r.folder == "cmd/wiring" || r.folder == "integration"
	return slices.ContainsFunc(r.ours, func(folder string) bool {
		return below(part, folder) && (connects || folder == "schemas")
	})
}

// below reports whether path is root or is below it.
func below(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}
