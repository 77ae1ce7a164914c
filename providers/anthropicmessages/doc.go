// Package anthropicmessages implements Anthropic's Messages API (https://docs.claude.com/en/api/messages), which
// other vendors serve too, at any base URL.
//
// anthropic-sdk-go builds, sends and retries requests. Its response decoder is not used, because it loses a last
// event that is not followed by a blank line, treats a carriage return as part of the line, fails on JSON that can be
// repaired, replaces an emoji that is split between two deltas by U+FFFD, and drops the text of a failed response.
// Neither the environment nor the SDK's profiles are read: the key is part of the request.
//
// # Flags of a model (compat)
//
//   - supportsEagerToolInputStreaming, default true: tools may be marked for unbuffered streaming of arguments. If
//     false, a beta header requests the same.
//   - supportsLongCacheRetention, default true: cache control may use one hour.
//   - forceAdaptiveThinking: the model takes an effort instead of a thinking budget; by default its id decides.
//
// # Options (vendor)
//
//   - thinkingEnabled, thinkingBudgetTokens, effort: thinking in the vendor's terms; only with Request.Direct.
//   - thinkingDisplay: "summarized", the default, or "omitted".
//   - interleavedThinking, default true: models that take a budget may think between tool calls.
package anthropicmessages
