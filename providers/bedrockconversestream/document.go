package bedrockconversestream

import (
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
)

// A rawDocument is JSON that is sent byte for byte. The SDK's own documents would sort members and round numbers.
type rawDocument struct {
	document.Interface // to implement its unexported method; never called
	json               json.RawMessage
}

// MarshalSmithyDocument returns the JSON.
func (d rawDocument) MarshalSmithyDocument() ([]byte, error) { return d.json, nil }

// documentOf returns JSON as a document. It returns an error for invalid JSON, which the SDK would not detect.
func documentOf(raw json.RawMessage, what string) (document.Interface, error) {
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if !json.Valid(raw) {
		return nil, fmt.Errorf("%s: not JSON", what)
	}
	return rawDocument{json: raw}, nil
}
