package toolargs

// CompileWithin compiles a schema whose patterns may try for so long in one validation, not for a second.
var CompileWithin = compileWithin
