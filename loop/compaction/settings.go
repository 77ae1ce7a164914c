package compaction

// Settings say when a context is compacted and how much of it is kept. Both sizes are in tokens.
type Settings struct {
	// Enabled lets a context be compacted without being asked. Asking works without it.
	Enabled bool `json:"enabled"`
	// ReserveTokens is the room of the model's window that stays free for its reply. The summary may use 0.8 of it,
	// that of a turn's beginning 0.5.
	ReserveTokens int64 `json:"reserveTokens"`
	// KeepRecentTokens is the estimated size of the newest messages that stay as they are.
	KeepRecentTokens int64 `json:"keepRecentTokens"`
}

// DefaultSettings are pi's.
func DefaultSettings() Settings {
	return Settings{Enabled: true, ReserveTokens: 16384, KeepRecentTokens: 20000}
}

// ShouldCompact reports whether a context of so many tokens leaves less than the reserve of a model's window.
func ShouldCompact(tokens, window int64, s Settings) bool {
	return s.Enabled && tokens > window-s.ReserveTokens
}
