package schemas

import "context"

// What the tests need of the inside.
var (
	NewCompiler  = newCompiler
	DecodeStrict = decodeStrict
)

// ValidateAs holds a payload against any of the embedded schemas.
func ValidateAs(name SchemaName, payload []byte) error {
	return validate(name.Area+" "+name.Name, name, payload)
}

// CommandKinds lists every kind, in no order.
func CommandKinds() []CommandKind {
	var kinds []CommandKind
	for kind := range commandTypes {
		kinds = append(kinds, kind)
	}
	return kinds
}

// TakeDecodeRoom takes the room of large payloads until release.
func TakeDecodeRoom() (release func()) {
	release, _ = decoded.Wait(context.Background(), struct{}{}, maxDecoded)
	return release
}
