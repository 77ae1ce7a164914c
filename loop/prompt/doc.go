// Package prompt makes prompts from what the workspace of a session provides ([schemas.Resources]): the system prompt
// with its context files and skills, and prompts that name a template or a skill.
//
// It is pure: its results depend on its arguments alone.
package prompt
