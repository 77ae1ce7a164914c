package schemas_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestRetryableCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[schemas.FailureCode]bool{
		schemas.FailureRateLimited: true, schemas.FailureOverloaded: true, schemas.FailureServerError: true,
		schemas.FailureTimeout: true, schemas.FailureConnection: true,
		schemas.FailureContextOverflow: false, schemas.FailureTooLarge: false, schemas.FailureQuota: false,
		schemas.FailureAuth: false, schemas.FailureInvalidRequest: false, schemas.FailureRefused: false,
		schemas.FailureUnknown: false, "": false, "of_the_future": false,
	} {
		if got := code.Retryable(); got != want {
			t.Errorf("%q is retryable: %t", code, got)
		}
		known := code
		if code == "of_the_future" {
			known = schemas.FailureUnknown
		}
		if got := code.Known(); got != known {
			t.Errorf("%q is known as %q", code, got)
		}
	}
}

func TestFailureCodeOf(t *testing.T) {
	t.Parallel()
	inner := errors.New("slow down")
	limited := &schemas.FailureError{Code: schemas.FailureRateLimited, Err: inner}
	for _, c := range []struct {
		err  error
		want schemas.FailureCode
	}{
		{nil, schemas.FailureUnknown},
		{inner, schemas.FailureUnknown},
		{limited, schemas.FailureRateLimited},
		{fmt.Errorf("ask the vendor: %w", limited), schemas.FailureRateLimited},
		{errors.Join(inner, schemas.NewFailure(schemas.FailureAuth, "no key")), schemas.FailureAuth},
		{&schemas.FailureError{Code: schemas.FailureTimeout, Err: limited}, schemas.FailureTimeout},
	} {
		if got := schemas.FailureCodeOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if !errors.Is(limited, inner) || limited.Error() != "slow down" {
		t.Errorf("%v hides what is inside", limited)
	}
}

// TestTheCodeIsInTheEvent holds that an error event carries its code, and no other event one.
func TestTheCodeIsInTheEvent(t *testing.T) {
	t.Parallel()
	e := schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopError, FailureCode: schemas.FailureQuota}
	for kind, want := range map[schemas.StreamEventType]string{
		schemas.StreamError: `{"type":"error","reason":"error","failureCode":"quota"}`,
		schemas.StreamDone:  `{"type":"done","reason":"error"}`,
	} {
		e.Type = kind
		raw, err := schemas.Marshal(e)
		if err != nil || string(raw) != want {
			t.Errorf("%s, %v; want %s", raw, err, want)
		}
		var back schemas.StreamEvent
		err = back.UnmarshalJSON(raw)
		if err != nil || (back.FailureCode == e.FailureCode) != (kind == schemas.StreamError) {
			t.Errorf("%s comes back as %+v, %v", raw, back, err)
		}
	}
}
