package gemini

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers"
)

// requestBody is the body of a request to generateContent.
type requestBody struct {
	Contents          []*content        `json:"contents"`
	SystemInstruction *content          `json:"systemInstruction,omitempty"`
	Tools             []tools           `json:"tools,omitempty"`
	ToolConfig        *toolConfig       `json:"toolConfig,omitempty"`
	GenerationConfig  *generationConfig `json:"generationConfig,omitempty"`
}

type content struct {
	Parts []*part `json:"parts"`
	Role  string  `json:"role"`
}

type part struct {
	Text             *string           `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	ThoughtSignature string            `json:"thoughtSignature,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
}

type inlineData struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
	Parts    []*part           `json:"parts,omitempty"`
}

type tools struct {
	FunctionDeclarations []declaration `json:"functionDeclarations"`
}

type declaration struct {
	Name                 string          `json:"name"`
	Description          string          `json:"description"`
	ParametersJSONSchema json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type toolConfig struct {
	FunctionCallingConfig struct {
		Mode string `json:"mode"`
	} `json:"functionCallingConfig"`
}

type generationConfig struct {
	Temperature     *float64        `json:"temperature,omitempty"`
	MaxOutputTokens int64           `json:"maxOutputTokens,omitempty"`
	ThinkingConfig  *thinkingConfig `json:"thinkingConfig,omitempty"`
}

// newBody returns the body of a request.
func newBody(req *providers.Request) (*requestBody, error) {
	b := &requestBody{Contents: contents(req)}
	if system := req.System(); system != "" {
		b.SystemInstruction = &content{Role: "user", Parts: []*part{{Text: &system}}}
	}
	if len(req.Tools) > 0 {
		b.Tools = []tools{{}}
		for _, t := range req.Tools {
			b.Tools[0].FunctionDeclarations = append(b.Tools[0].FunctionDeclarations,
				declaration{Name: t.Name, Description: t.Description, ParametersJSONSchema: t.Parameters})
		}
		b.setToolChoice(req.ToolChoice)
	}
	thinking, err := newThinking(req)
	if err != nil {
		return nil, err
	}
	config := generationConfig{Temperature: req.Temperature, MaxOutputTokens: req.Output(), ThinkingConfig: thinking}
	if config != (generationConfig{}) {
		b.GenerationConfig = &config
	}
	return b, nil
}

// setToolChoice sets whether the model may or must call a tool, if the request states it.
func (b *requestBody) setToolChoice(choice json.RawMessage) {
	var mode string
	if json.Unmarshal(choice, &mode) != nil || mode == "" {
		return
	}
	b.ToolConfig = new(toolConfig)
	switch mode = strings.ToUpper(mode); mode {
	case "NONE", "ANY":
		b.ToolConfig.FunctionCallingConfig.Mode = mode
	default:
		b.ToolConfig.FunctionCallingConfig.Mode = "AUTO"
	}
}
