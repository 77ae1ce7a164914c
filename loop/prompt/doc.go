// Package prompt puts prompts together out of what the workspace of a session has ([schemas.Resources]): the system
// prompt with its context files and skills, and prompts that name a template or a skill.
//
// It is pure: what it is given decides what it returns, and it keeps nothing.
package prompt
