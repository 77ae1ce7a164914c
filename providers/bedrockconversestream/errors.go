package bedrockconversestream

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/loopbus/loopbus/providers/internal/transport"
)

// A replyError is what is wrong with a reply, in words that people and the rules for another attempt know.
type replyError string

func (e replyError) Error() string { return string(e) }

// exceptions are what the vendor's errors are called, by their codes in lower case.
var exceptions = map[string]string{
	"internalserverexception":     "Internal server error",
	"modelstreamerrorexception":   "Model stream error",
	"serviceunavailableexception": "Service unavailable",
	"throttlingexception":         "Throttling error",
	"validationexception":         "Validation error",
}

// exception is the error that the vendor tells of by a code and a message.
func exception(code, message string) error {
	if name, ok := exceptions[strings.ToLower(code)]; ok {
		code = name
	}
	return replyError(code + ": " + message)
}

// callError is the error of a request that came to nothing. What says no more than that, or is not the vendor's own but say
// a proxy's, is quoted.
func callError(tap *transport.Tap, err error) error {
	failure, failed := tap.Failure()
	if !failed {
		return err
	}
	quoted := fmt.Sprintf("%d %s", failure.Status, cmp.Or(failure.Text(), "status code (no body)"))
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() == "" || api.ErrorCode() == "UnknownError" {
		return replyError(quoted)
	}
	return exception(api.ErrorCode(), cmp.Or(api.ErrorMessage(), quoted))
}
