// Package anthropicmessages speaks Anthropic's Messages API (https://docs.claude.com/en/api/messages), which others
// serve too: any base URL does.
//
// Requests are built, sent and repeated by anthropic-sdk-go. Its decoder of the answer is not used: it loses a last
// event that no blank line follows, takes a carriage return for a part of the line, gives up on JSON that can be
// mended, and makes U+FFFD of an emoji that is cut in two; and of a failing response it keeps no text. The environment
// is not read, nor any of the SDK's profiles: the key is the request's.
//
// # Flags of a model (compat)
//
//   - supportsEagerToolInputStreaming, default true: tools may be marked to have their arguments streamed unbuffered.
//     Without it a beta header asks for the same.
//   - supportsLongCacheRetention, default true: cache marks may say one hour.
//   - forceAdaptiveThinking: the model takes an effort instead of a budget for thinking; by default the id decides.
//
// # Options (vendor)
//
//   - thinkingEnabled, thinkingBudgetTokens, effort: thinking in the vendor's own terms; only with Request.Direct.
//   - thinkingDisplay: "summarized", the default, or "omitted".
//   - interleavedThinking, default true: models that take a budget may think between tool calls.
package anthropicmessages
