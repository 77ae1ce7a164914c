package observe

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// NewRegistry returns a registry with the metrics that every program has: of the Go runtime, the process and the
// build.
func NewRegistry(program, version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "loopbus_build_info", Help: "1; its labels say what was built.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "revision": revision(),
			"goversion": runtime.Version()},
	})
	build.Set(1)
	r.MustRegister(build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// revision returns the commit of the build, if known.
func revision() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return "unknown"
	}
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-modified"
		}
	}
	return cmp.Or(commit, "unknown") + modified
}
