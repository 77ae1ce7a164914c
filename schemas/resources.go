package schemas

import "encoding/json"

// BucketResources has an entry for each worker that serves a directory: the [Resources] in it.
const BucketResources = "agent_resources"

// Bounds of [Resources]. A file that is larger, and what does not fit any more, is listed as omitted.
const (
	MaxResourceFile  = 64 << 10  // bytes of one file
	MaxResourceBytes = 384 << 10 // bytes of the texts of all, as JSON
	MaxResources     = 256       // files of each kind
)

// Resources is what the directory of a workspace has for prompts, as the worker that serves the directory announces it:
// context files, skills and prompt templates. It is an entry of the bucket agent_resources under the
// key [ResourcesKey], and lives as long as the worker renews it. A run reads it when it starts.
type Resources struct {
	Workspace string            `json:"workspace,omitempty"`
	Worker    string            `json:"worker"`
	Since     string            `json:"since"`     // RFC 3339; when it became what it is
	Directory string            `json:"directory"` // that the tools work in
	Context   []Resource        `json:"context,omitempty"`
	Skills    []Skill           `json:"skills,omitempty"`
	Templates []Template        `json:"templates,omitempty"`
	Omitted   []OmittedResource `json:"omitted,omitempty"`
}

// Resource is a file: Path is how the tools of the workspace name it, SHA256 the hash of its bytes in hex. Text is what
// is shown of it, without its front matter.
type Resource struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Skill is a file SKILL.md. A manual one is not offered to the model: somebody has to ask for it.
type Skill struct {
	Resource
	Name        string `json:"name"`
	Description string `json:"description"`
	Manual      bool   `json:"manual,omitempty"`
}

// Template is a prompt with places for arguments.
type Template struct {
	Resource
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// OmittedResource is a file that was found and left out, and why.
type OmittedResource struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// PromptSource says which file a part of the system prompt, or an expanded prompt, came from.
type PromptSource struct {
	Kind   ResourceKind `json:"kind"`
	Path   string       `json:"path"`
	SHA256 string       `json:"sha256"`
	Name   string       `json:"name,omitempty"` // of a skill or template
}

// ResourceKind is one of the kinds of [Resources].
type ResourceKind string

// The kinds of resources.
const (
	ResourceContext  ResourceKind = "context"
	ResourceSkill    ResourceKind = "skill"
	ResourceTemplate ResourceKind = "template"
)

// Empty reports whether there is nothing to show.
func (r Resources) Empty() bool { return len(r.Context)+len(r.Skills)+len(r.Templates) == 0 }

// ResourcesKey is the key of the announcement by a worker of what a workspace has; the workspace may be empty.
func ResourcesKey(workspace, worker string) string {
	if workspace == "" {
		return worker
	}
	return workspace + "." + worker
}

// ParseResources reads an announcement. An error is a [*ValidationError] or says why it is no JSON.
func ParseResources(payload []byte) (r Resources, err error) {
	if err := validate("resources", SchemaName{"resources", "resources"}, payload); err != nil {
		return r, err
	}
	err = json.Unmarshal(payload, &r)
	return r, err
}
