package bedrockconversestream

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/transport"
)

// exceptions are what the vendor's errors are called, by their codes in lower case.
var exceptions = map[string]string{
	"internalserverexception":     "Internal server error",
	"modelstreamerrorexception":   "Model stream error",
	"serviceunavailableexception": "Service unavailable",
	"throttlingexception":         "Throttling error",
	"validationexception":         "Validation error",
}

// exception is the error that the vendor tells of by a code and a message, with the status of the response, 0 in a
// stream.
func exception(status int, code, message string) error {
	name := cmp.Or(exceptions[strings.ToLower(code)], code)
	return failure.New(name+": "+message, status, code)
}

// callError is the error of a request that came to nothing. What says no more than that, or is not the vendor's own but
// say a proxy's, is quoted.
func callError(tap *transport.Tap, err error) error {
	f, failed := tap.Failure()
	if !failed {
		return err
	}
	quoted := fmt.Sprintf("%d %s", f.Status, cmp.Or(f.Text(), "status code (no body)"))
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() == "" || api.ErrorCode() == "UnknownError" {
		return failure.OfResponse(quoted, f)
	}
	return exception(f.Status, api.ErrorCode(), cmp.Or(api.ErrorMessage(), quoted))
}
