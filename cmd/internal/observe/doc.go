// Package observe has what makes a program's work visible: the settings for it, the log, health and metrics over HTTP,
// and traces by the OpenTelemetry semantic conventions for generative AI. The runner and the toolworker use it alike.
package observe
