package failure

import (
	"encoding/json"
	"errors"
	"io"
	"net"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// OfCredentials returns the error of a service that issues credentials, or that could not be reached. what names the
// credentials. status and names are those of its response as in [New]; status is 0 if they are not known. What a retry
// may cure gets a code that says so; everything else is auth.
func OfCredentials(what string, err error, status int, names ...string) *schemas.FailureError {
	code := schemas.FailureCodeOf(err)
	var network net.Error
	var syntax *json.SyntaxError
	switch {
	case code != schemas.FailureUnknown:
	case status != 0:
		code = Code(err.Error(), status, names...)
	case errors.As(err, &network) && network.Timeout():
		code = schemas.FailureTimeout
	case network != nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		code = schemas.FailureConnection
	case errors.As(err, &syntax):
		code = schemas.FailureServerError
	default:
		code = providers.FailureOfText(err.Error())
	}
	if !code.Retryable() {
		code = schemas.FailureAuth
	}
	return schemas.NewFailure(code, what+": "+transport.Text(err)) // without the URLs of err
}
