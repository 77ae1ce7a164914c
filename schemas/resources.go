package schemas

import "encoding/json"

// BucketResources has an entry for each worker that serves a directory: its [Resources].
const BucketResources = "agent_resources"

// Limits of [Resources]. Files beyond them are listed as omitted.
const (
	MaxResourceFile  = 64 << 10  // bytes of one file
	MaxResourceBytes = 384 << 10 // bytes of the texts of all, as JSON
	MaxResources     = 256       // files of each kind
)

// Resources are the context files, skills and prompt templates in the directory of a workspace, as the worker that
// serves the directory announces them. It is an entry of the bucket agent_resources under the key [ResourcesKey], and
// expires unless the worker renews it. A run reads it when it starts.
type Resources struct {
	Workspace string            `json:"workspace,omitempty"`
	Worker    string            `json:"worker"`
	Since     string            `json:"since"`     // RFC 3339; time of the last change
	Directory string            `json:"directory"` // in which the tools work
	Context   []Resource        `json:"context,omitempty"`
	Skills    []Skill           `json:"skills,omitempty"`
	Templates []Template        `json:"templates,omitempty"`
	Omitted   []OmittedResource `json:"omitted,omitempty"`
}

// Resource is a file. Path is its path as the tools of the workspace see it, SHA256 the hash of its bytes in hex. Text
// is the part of the file that is used, without its front matter.
type Resource struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

// Skill is a file SKILL.md. A manual one is hidden from the model; a user can still request it.
type Skill struct {
	Resource
	Name        string `json:"name"`
	Description string `json:"description"`
	Manual      bool   `json:"manual,omitempty"`
}

// Template is a prompt template with placeholders for arguments.
type Template struct {
	Resource
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// OmittedResource is a file that was found but left out, and the reason.
type OmittedResource struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// PromptSource names the file from which a part of the system prompt, or an expanded prompt, was taken.
type PromptSource struct {
	Kind   ResourceKind `json:"kind"`
	Path   string       `json:"path"`
	SHA256 string       `json:"sha256"`
	Name   string       `json:"name,omitempty"` // of a skill or template
}

// ResourceKind is a kind of [Resources].
type ResourceKind string

// The kinds of resources.
const (
	ResourceContext  ResourceKind = "context"
	ResourceSkill    ResourceKind = "skill"
	ResourceTemplate ResourceKind = "template"
)

// Empty reports whether there are no context files, skills or templates.
func (r Resources) Empty() bool { return len(r.Context)+len(r.Skills)+len(r.Templates) == 0 }

// ResourcesKey returns the key of a worker's announcement for a workspace, which may be empty.
func ResourcesKey(workspace, worker string) string {
	if workspace == "" {
		return worker
	}
	return workspace + "." + worker
}

// ParseResources validates and decodes an announcement. An error is a [*ValidationError] or the reason why it is not
// JSON.
func ParseResources(payload []byte) (r Resources, err error) {
	if err := validate("resources", SchemaName{"resources", "resources"}, payload); err != nil {
		return r, err
	}
	err = json.Unmarshal(payload, &r)
	return r, err
}
