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

// exceptions maps the codes of the vendor's errors, in lower case, to their names in an error text.
var exceptions = map[string]string{
	"internalserverexception":     "Internal server error",
	"modelstreamerrorexception":   "Model stream error",
	"serviceunavailableexception": "Service unavailable",
	"throttlingexception":         "Throttling error",
	"validationexception":         "Validation error",
}

// exception returns the error for a code and message that the vendor sent. status is that of the response, 0 within a
// stream.
func exception(status int, code, message string) error {
	name := cmp.Or(exceptions[strings.ToLower(code)], code)
	return failure.New(name+": "+message, status, code)
}

// callError returns the error of a failed request. If the response has no code or message of the vendor, such as one of
// a proxy, the error quotes its status and body.
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
