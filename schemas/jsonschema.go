package schemas

import (
	"embed"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

//go:embed jsonschema/*/*.json
var schemaFS embed.FS

const schemaRoot = "jsonschema"

// SchemaName names one of the embedded JSON Schemas: its area (messages, events, updates, commands, tools, models,
// keys; common for the parts they share) and its name there.
type SchemaName struct {
	Area string
	Name string
}

// URI returns the schema's $id.
func (n SchemaName) URI() string { return DataSchema(n.Area, n.Name) }

// Schema returns the JSON Schema (draft 2020-12) of an area's message, such as "commands", "prompt". The caller owns
// the bytes. References in it are relative to its $id.
func Schema(area, name string) ([]byte, bool) {
	raw, err := schemaFS.ReadFile(schemaRoot + "/" + area + "/" + name + "." + Version + ".json")
	return raw, err == nil
}

// SchemaNames lists the embedded schemas, sorted by area and name.
func SchemaNames() []SchemaName {
	files, err := fs.Glob(schemaFS, schemaRoot+"/*/*."+Version+".json") // sorted
	if err != nil {
		panic("schemas: list of embedded schemas: " + err.Error()) // only a bad pattern
	}
	names := make([]SchemaName, len(files))
	for i, file := range files {
		area, name, _ := strings.Cut(strings.TrimPrefix(file, schemaRoot+"/"), "/")
		names[i] = SchemaName{Area: area, Name: strings.TrimSuffix(name, "."+Version+".json")}
	}
	return names
}

// compiled has the embedded schemas that were needed so far, by [SchemaName]. Compiling all of them takes a tenth of a
// second, which is too long for the start of a program.
var compiled sync.Map

// compiling guards the compiler, which keeps what it has read.
var compiling struct {
	sync.Mutex
	compiler *jsonschema.Compiler
}

// compiledSchema returns an embedded schema, which it compiles on the first call. A mistake in a schema is a
// programmer's error, because the schemas are part of the program and a test compiles them all.
func compiledSchema(name SchemaName) *jsonschema.Schema {
	if s, ok := compiled.Load(name); ok {
		return s.(*jsonschema.Schema)
	}
	compiling.Lock()
	defer compiling.Unlock()
	if compiling.compiler == nil {
		compiling.compiler = newCompiler()
	}
	s, err := compiling.compiler.Compile(name.URI())
	if err != nil {
		panic(fmt.Sprintf("schemas: embedded schema %s: %v", name.URI(), err))
	}
	compiled.Store(name, s)
	return s
}

// newCompiler returns a compiler that loads only the embedded schemas: no file, no network.
func newCompiler() *jsonschema.Compiler {
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.AssertContent = true // base64 of images
	c.LoadURL = openEmbedded
	c.RegisterExtension("memberCase", nil, memberCase{})
	return c
}

func openEmbedded(uri string) (io.ReadCloser, error) {
	file, ok := strings.CutPrefix(uri, SchemaBase)
	if !ok {
		return nil, fmt.Errorf("schemas: %s is not below %s", uri, SchemaBase)
	}
	return schemaFS.Open(schemaRoot + "/" + file)
}
