// Package resources finds what a directory has for prompts ([schemas.Resources]): context files, skills and prompt
// templates, where agents of several makers look for them.
//
//	AGENTS.md, or else CLAUDE.md            context
//	.agents/skills/…/NAME/SKILL.md          skills; also below .pi/skills
//	.agents/prompts/NAME.md                 prompt templates; also in .pi/prompts
//
// Of two with one name the first counts, in this order. What ignore files name is skipped. Everything is bounded;
// what is left out is listed with the reason, so that nobody has to guess why a skill is not there.
package resources
