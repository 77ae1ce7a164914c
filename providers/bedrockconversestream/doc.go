// Package bedrockconversestream speaks the ConverseStream operation of Amazon Bedrock
// (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html).
//
// Requests are built, signed, sent and repeated by aws-sdk-go-v2, whose frames of the answer are decoded as well. What
// is in the frames is not left to it: its reader runs in a goroutine of its own, where a panic takes the process down,
// and it makes U+FFFD of an emoji that is cut in two.
//
// # Credentials
//
// A key of the request is a Bedrock API key and sent as it is. Without one, requests are signed: with
// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the request's environment; or else with what the
// SDK finds where it always looks (the process's own environment, shared configuration, single sign-on, a container's
// or an instance's role). That is the one thing here that does not come with the request. [Stream] looks for each
// request; [New] keeps what it found until it expires.
//
// The region is the first there is of: the option, AWS_REGION and AWS_DEFAULT_REGION, the shared configuration's, that
// of the model's ARN, that of the base URL, us-east-1. A base URL that is AWS's own serves its own region, and gives
// way to another.
//
// # Flags of a model (compat)
//
//   - supportsCachePoints: by default those of Anthropic's models do that are known to.
//   - forceAdaptiveThinking: the model takes an effort instead of a budget for thinking; by default the id decides.
//
// # Options (vendor)
//
//   - region, profile: for AWS.
//   - reasoning: a thinking level; only with Request.Direct.
//   - thinkingDisplay: "summarized", the default, or "omitted".
//   - interleavedThinking, default true: models that take a budget may think between tool calls.
package bedrockconversestream
