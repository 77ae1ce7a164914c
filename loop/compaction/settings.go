package compaction

// Settings determine when a context is compacted and how much of it is kept. Both sizes are in tokens.
type Settings struct {
	// Enabled allows automatic compactions. Requested ones work without it.
	Enabled bool `json:"enabled"`
	// ReserveTokens is the part of the model's window that stays free for its reply. A summary may use 0.8 of it, the
	// summary of a turn's beginning 0.5.
	ReserveTokens int64 `json:"reserveTokens"`
	// KeepRecentTokens is the estimated size of the newest messages, which stay as they are.
	KeepRecentTokens int64 `json:"keepRecentTokens"`
}

// DefaultSettings returns pi's settings.
func DefaultSettings() Settings {
	return Settings{Enabled: true, ReserveTokens: 16384, KeepRecentTokens: 20000}
}

// ShouldCompact reports whether a context of this many tokens leaves less than the reserve free in a model's window.
func ShouldCompact(tokens, window int64, s Settings) bool {
	return s.Enabled && tokens > window-s.ReserveTokens
}
