package models_test

import (
	"context"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// TestFailureCodesCrossTheBus checks that the terminal event at the caller has the code of the failure, whether the
// vendor, the server or the connection caused it.
func TestFailureCodesCrossTheBus(t *testing.T) {
	t.Parallel()
	vendor := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		failed := reply("half", schemas.StopError)
		say(schemas.StreamEvent{
			Type: schemas.StreamError, Reason: schemas.StopError, FailureCode: schemas.FailureQuota, Message: failed,
		})
		return nil
	})
	coded := modelFunc(func(context.Context, schemas.ModelRequest, func(schemas.StreamEvent) bool) error {
		return schemas.NewFailure(schemas.FailureRateLimited, "slow down")
	})
	endless := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(piece("half"))
		return nil
	})
	for name, c := range map[string]struct {
		model  modelFunc // nil: there is no server
		client models.ClientOptions
		want   schemas.FailureCode
	}{
		"of the vendor":    {vendor, models.ClientOptions{}, schemas.FailureQuota},
		"of an error":      {coded, models.ClientOptions{}, schemas.FailureRateLimited},
		"of a missing end": {endless, models.ClientOptions{}, schemas.FailureConnection},
		"of a big request": {vendor, models.ClientOptions{MaxBytes: 200}, schemas.FailureTooLarge},
		"of no server":     {nil, models.ClientOptions{}, schemas.FailureInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t)
			if c.model != nil {
				serveModels(t, bustest.Connect(t, server), c.model, models.ServerOptions{})
			}
			events, _ := stream(t, models.NewClient(bustest.Connect(t, server), c.client),
				wholeRequest(strings.Repeat("word ", 100)))
			if got := events[len(events)-1].FailureCode; got != c.want {
				t.Errorf("the code is %q, want %q", got, c.want)
			}
		})
	}
}
