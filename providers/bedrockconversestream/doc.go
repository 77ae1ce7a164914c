// Package bedrockconversestream implements the ConverseStream operation of Amazon Bedrock
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html).
//
// aws-sdk-go-v2 builds, signs, sends and retries requests, and decodes the frames of the response. The contents of
// the frames are decoded by this package: the SDK's reader runs in its own goroutine, where a panic would end the
// process, and it replaces an emoji that is split between two deltas by U+FFFD.
//
// # Credentials
//
// A key in the request is a Bedrock API key and sent unchanged. Without one, requests are signed with
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the request's environment, or with what the SDK
// finds by default (the process's environment, shared configuration, single sign-on, or the role of a container or
// instance). This is the only input that does not come with the request. [Stream] looks up credentials for each
// request; the function of [New] caches them until they expire.
//
// The region is the first of: the option, AWS_REGION and AWS_DEFAULT_REGION, the shared configuration, the model's
// ARN, the base URL, us-east-1. A base URL of AWS itself is only valid for its own region, and is replaced for
// another one.
//
// # Flags of a model (compat)
//
//   - supportsCachePoints: by default, true for the Anthropic models known to support them.
//   - forceAdaptiveThinking: the model takes an effort instead of a thinking budget; by default its id decides.
//
// # Options (vendor)
//
//   - region, profile: for AWS.
//   - reasoning: a thinking level; only with Request.Direct.
//   - thinkingDisplay: "summarized", the default, or "omitted".
//   - interleavedThinking, default true: models that take a budget may think between tool calls.
package bedrockconversestream
