package bedrockconversestream

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
)

// retryer returns the policy for retries: that of AWS, unless the headers of the response decide. A gateway in place of
// AWS may set them, and the tap does if the wait would be too long.
func retryer(req *providers.Request, tap *transport.Tap) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = max(0, req.MaxRetries) + 1
		usual := retry.NewExponentialJitterBackoff(o.MaxBackoff)
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			if failure, failed := tap.Failure(); failed {
				if wait, ok := transport.RetryAfter(failure.Header, req.Time()); ok {
					return wait, nil
				}
			}
			return usual.BackoffDelay(attempt, err)
		})
		byHeader := retry.IsErrorRetryableFunc(func(error) aws.Ternary {
			failure, _ := tap.Failure()
			switch failure.Header.Get("X-Should-Retry") {
			case "true":
				return aws.TrueTernary
			case "false":
				return aws.FalseTernary
			}
			return aws.UnknownTernary
		})
		o.Retryables = append([]retry.IsErrorRetryable{byHeader}, o.Retryables...)
	})
}
