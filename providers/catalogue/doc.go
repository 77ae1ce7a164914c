// Package catalogue describes models: their API and address, their prices and limits.
//
// The built-in catalogue is models.json, validated by schema.json. A user's file of the same form is merged over it
// member by member: it can add a model, change a price or redirect a provider; null removes a member. Prices are in
// US dollars per million tokens, 0 if free or unknown. The figures are the vendors' as of the date in the file; the
// program cannot notice changes.
//
// An "open" provider also serves models that are not listed, such as a server on the same machine: any id is a model
// with the provider's defaults.
package catalogue
