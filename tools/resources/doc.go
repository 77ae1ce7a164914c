// Package resources finds what a directory offers for prompts ([schemas.Resources]): context files, skills and prompt
// templates, in the locations that several agents use.
//
//	AGENTS.md, or else CLAUDE.md            context
//	.agents/skills/…/NAME/SKILL.md          skills; also below .pi/skills
//	.agents/prompts/NAME.md                 prompt templates; also in .pi/prompts
//
// Of two with the same name the first in this order counts. Files that ignore files name are skipped. Everything is
// bounded; what is left out is listed with the reason.
package resources
