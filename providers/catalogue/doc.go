// Package catalogue knows models: what API they speak and where, what they cost and take.
//
// The catalogue that comes with the program is models.json, validated by schema.json. A file of the user's own, of the
// same form, is merged over it member by member, so that it can add a model, change a price or point a provider
// elsewhere; null takes a member away. Prices are in US dollars per million tokens; 0 where nothing is charged or
// nothing is known. The figures are the vendors' as of the date in the file; a program cannot see when they change.
//
// A provider that is "open" serves models that nobody lists, such as a server on the same machine: any id is one of its
// models, with the provider's defaults.
package catalogue
