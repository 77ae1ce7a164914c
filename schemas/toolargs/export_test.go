package toolargs

// CompileWithin compiles a schema whose patterns may try for so long in one validation, not for a second.
var CompileWithin = compileWithin

// Limit has the schema's validations take so many steps at most, not as many as others.
func (s *Schema) Limit(steps int) { s.steps = steps }
