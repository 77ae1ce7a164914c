// Package observe makes a program observable: logging, health and metrics over HTTP, traces by the OpenTelemetry
// semantic conventions for generative AI, and the settings for them. The runner and the toolworker both use it.
package observe
