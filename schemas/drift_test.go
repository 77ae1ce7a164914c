package schemas

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// The Go types and the schemas say the same thing twice. These tests compare them: the members of every
// object, which of them are required, and the values of every choice.

func TestSchemasHaveTheMembersOfTheTypes(t *testing.T) {
	for ref, goType := range describedTypes() {
		t.Run(ref, func(t *testing.T) {
			s := compileRef(t, ref)
			wantMembers, wantRequired := goMembers(goType)
			gotMembers, gotRequired := schemaMembers(s)
			if strings.HasPrefix(ref, "commands/") {
				wantMembers = sorted(append(wantMembers, "id")) // the command's id is not part of its data
			}
			for _, c := range []string{"type", "role"} { // written by MarshalJSON
				if slices.Contains(gotMembers, c) && !slices.Contains(wantMembers, c) {
					wantMembers, wantRequired = sorted(append(wantMembers, c)), sorted(append(wantRequired, c))
				}
			}
			if d := cmp.Diff(wantMembers, gotMembers); d != "" {
				t.Errorf("members (-Go +schema):\n%s", d)
			}
			if d := cmp.Diff(wantRequired, gotRequired); d != "" {
				t.Errorf("required members (-Go +schema):\n%s", d)
			}
		})
	}
}

// describedTypes maps every object of the schemas to its Go type.
func describedTypes() map[string]reflect.Type {
	types := map[string]reflect.Type{
		"common/input.v1.json":                              reflect.TypeFor[Input](),
		"events/command_accepted.v1.json#/$defs/follow":     reflect.TypeFor[Follow](),
		"common/types.v1.json#/$defs/model":                 reflect.TypeFor[ModelRef](),
		"common/types.v1.json#/$defs/usage":                 reflect.TypeFor[Usage](),
		"common/types.v1.json#/$defs/cost":                  reflect.TypeFor[Cost](),
		"common/types.v1.json#/$defs/limits":                reflect.TypeFor[Limits](),
		"common/types.v1.json#/$defs/approvalPolicy":        reflect.TypeFor[ApprovalPolicy](),
		"common/types.v1.json#/$defs/retryPolicy":           reflect.TypeFor[RetryPolicy](),
		"common/types.v1.json#/$defs/runConfig":             reflect.TypeFor[RunConfig](),
		"common/types.v1.json#/$defs/hookRef":               reflect.TypeFor[HookRef](),
		"common/types.v1.json#/$defs/toolLayer":             reflect.TypeFor[ToolLayer](),
		"common/types.v1.json#/$defs/toolRemoval":           reflect.TypeFor[ToolRemoval](),
		"common/types.v1.json#/$defs/sandboxPolicy":         reflect.TypeFor[SandboxPolicy](),
		"common/types.v1.json#/$defs/profileBudget":         reflect.TypeFor[ProfileBudget](),
		"hooks/hook_request.v1.json":                        reflect.TypeFor[HookRequest](),
		"hooks/hook_answer.v1.json":                         reflect.TypeFor[HookAnswer](),
		"profiles/profile.v1.json":                          reflect.TypeFor[Profile](),
		"common/content.v1.json#/$defs/text":                reflect.TypeFor[Text](),
		"common/content.v1.json#/$defs/thinking":            reflect.TypeFor[Thinking](),
		"common/content.v1.json#/$defs/image":               reflect.TypeFor[Image](),
		"common/content.v1.json#/$defs/toolCall":            reflect.TypeFor[ToolCall](),
		"common/content.v1.json#/$defs/toolResult":          reflect.TypeFor[ToolResult](),
		"messages/user.v1.json":                             reflect.TypeFor[UserMessage](),
		"messages/assistant.v1.json":                        reflect.TypeFor[AssistantMessage](),
		"messages/toolResult.v1.json":                       reflect.TypeFor[ToolResultMessage](),
		"tools/tool_definition.v1.json":                     reflect.TypeFor[ToolDefinition](),
		"tools/tool_announcement.v1.json":                   reflect.TypeFor[ToolAnnouncement](),
		"tools/tool_request.v1.json":                        reflect.TypeFor[ToolRequest](),
		"updates/message_update.v1.json":                    reflect.TypeFor[MessageUpdate](),
		"updates/tool_execution_update.v1.json":             reflect.TypeFor[ToolExecutionUpdate](),
		"updates/message_update.v1.json#/$defs/streamEvent": reflect.TypeFor[streamEventJSON](),
	}
	types["common/types.v1.json#/$defs/fileLists"] = reflect.TypeFor[FileLists]()
	types["events/leaf.v1.json#/$defs/entry"] = reflect.TypeFor[TreeMessage]()
	types["events/leaf.v1.json#/$defs/summary"] = reflect.TypeFor[BranchSummary]()
	types["common/types.v1.json#/$defs/compactionPolicy"] = reflect.TypeFor[CompactionPolicy]()
	types["common/types.v1.json#/$defs/contextUsage"] = reflect.TypeFor[ContextUsage]()
	types["common/types.v1.json#/$defs/suppliedCompaction"] = reflect.TypeFor[SuppliedCompaction]()
	types["models/model_request.v1.json"] = reflect.TypeFor[ModelRequest]()
	types["models/model_frame.v1.json"] = reflect.TypeFor[ModelFrame]()
	types["resources/resources.v1.json"] = reflect.TypeFor[Resources]()
	types["resources/resources.v1.json#/$defs/resource"] = reflect.TypeFor[Resource]()
	types["resources/resources.v1.json#/$defs/skill"] = reflect.TypeFor[Skill]()
	types["resources/resources.v1.json#/$defs/template"] = reflect.TypeFor[Template]()
	types["resources/resources.v1.json#/$defs/omitted"] = reflect.TypeFor[OmittedResource]()
	types["resources/resources.v1.json#/$defs/source"] = reflect.TypeFor[PromptSource]()
	types["keys/key_answer.v1.json"] = reflect.TypeFor[KeyAnswer]()
	types["tools/tool_definition.v1.json#/$defs/argumentRewrite"] = reflect.TypeFor[ArgumentRewrite]()
	types["tools/tool_definition.v1.json#/$defs/annotations"] = reflect.TypeFor[ToolAnnotations]()
	for ref, goType := range queryTypes() {
		types["queries/"+ref] = goType
	}
	for name, newData := range eventTypes {
		types["events/"+string(name)+".v1.json"] = reflect.TypeOf(newData()).Elem()
	}
	for kind, newData := range commandTypes {
		types["commands/"+string(kind)+".v1.json"] = reflect.TypeOf(newData()).Elem()
	}
	return types
}

func TestEveryTypeHasASchema(t *testing.T) {
	described := describedTypes()
	for _, name := range SchemaNames() {
		ref := name.Area + "/" + name.Name + ".v1.json"
		switch ref {
		case "common/types.v1.json", "common/content.v1.json", "messages/message.v1.json", "messages/custom.v1.json":
			continue // no single Go struct
		}
		if described[ref] == nil {
			t.Errorf("%s has no Go type", ref)
		}
	}
}

func TestSchemasHaveTheChoicesOfTheTypes(t *testing.T) {
	constants := stringConstants(t)
	for goType, def := range map[string]string{
		"WhenBusy": "whenBusy", "Queue": "queue", "StopReason": "stopReason", "TerminationReason": "terminationReason",
		"ThinkingLevel": "thinkingLevel", "QueueMode": "queueMode", "ExecutionMode": "executionMode", "Effect": "effect",
		"CommandKind": "commandKind", "HookName": "hookName", "FailureCode": "failureCode",
		"CompactionReason": "compactionReason",
	} {
		want, got := sorted(constants[goType]), enumOf(compileRef(t, "common/types.v1.json#/$defs/"+def))
		if d := cmp.Diff(want, got); d != "" || len(want) == 0 {
			t.Errorf("%s and %s (-Go +schema):\n%s", goType, def, d)
		}
	}
	stream := compileRef(t, "updates/message_update.v1.json#/$defs/streamEvent").Properties["type"]
	if d := cmp.Diff(sorted(constants["StreamEventType"]), enumOf(stream)); d != "" {
		t.Errorf("StreamEventType (-Go +schema):\n%s", d)
	}
	for goType, at := range map[string]*jsonschema.Schema{
		"SessionStatus": compileRef(t, "queries/sessions_page.v1.json#/$defs/status"),
		"TreeEntryType": compileRef(t, "queries/session_tree.v1.json#/$defs/entry").Properties["type"],
		"QueryCode":     compileRef(t, "queries/query_error.v1.json").Properties["code"],
		"RejectCode":    compileRef(t, "events/command_rejected.v1.json").Properties["code"],
	} {
		if d := cmp.Diff(sorted(constants[goType]), enumOf(at)); d != "" {
			t.Errorf("%s (-Go +schema):\n%s", goType, d)
		}
	}
}

func TestEveryConstantHasItsType(t *testing.T) {
	constants := stringConstants(t)
	live := []string{string(EventMessageUpdate), string(EventToolExecutionUpdate)}
	for _, name := range constants["EventType"] {
		if (eventTypes[EventType(name)] == nil) != slices.Contains(live, name) {
			t.Errorf("event %s is either durable or live", name)
		}
	}
	for _, kind := range constants["CommandKind"] {
		if !KnownCommand(CommandKind(kind)) {
			t.Errorf("command %s has no type", kind)
		}
	}
}

func compileRef(t *testing.T, ref string) *jsonschema.Schema {
	t.Helper()
	s, err := newCompiler().Compile(SchemaBase + ref)
	if err != nil {
		t.Fatalf("compile %s: %v", ref, err)
	}
	return s
}

// schemaMembers returns the members that a schema, what it refers to and all of its allOf name, sorted.
func schemaMembers(s *jsonschema.Schema) (members, required []string) {
	for name := range s.Properties {
		members = append(members, name)
	}
	required = append(required, s.Required...)
	parts := s.AllOf
	if s.Ref != nil {
		parts = append(slices.Clone(parts), s.Ref)
	}
	for _, part := range parts {
		if part.If != nil && part.Ref == nil && part.Properties == nil {
			continue // a rule for one choice only
		}
		m, r := schemaMembers(part)
		members, required = append(members, m...), append(required, r...)
	}
	return sorted(members), sorted(required)
}

// goMembers returns the JSON members of a struct, and those that are always written, sorted.
func goMembers(t reflect.Type) (members, required []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			m, r := goMembers(f.Type)
			members, required = append(members, m...), append(required, r...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue // never encoded
		}
		members = append(members, name)
		if options == "" {
			required = append(required, name)
		}
	}
	return sorted(members), sorted(required)
}

func enumOf(s *jsonschema.Schema) []string {
	var values []string
	for _, v := range s.Enum {
		values = append(values, v.(string))
	}
	return sorted(values)
}

// stringConstants returns the values of the package's typed string constants by type.
func stringConstants(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if id, ok := spec.Type.(*ast.Ident); ok {
				found[id.Name] = append(found[id.Name], value)
			}
			return true
		})
	}
	return found
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
