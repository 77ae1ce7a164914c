package bedrockconversestream

import (
	"context"
	"io"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/smithy-go/auth/bearer"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// Stream calls a model; it is a [providers.StreamFunc] that caches nothing.
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return New()(ctx, req)
}

// New returns a [Stream] that caches the credentials found on the machine until they expire.
func New() providers.StreamFunc {
	found := newShared()
	return func(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
		return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
			body, err := found.call(ctx, req)
			if err != nil {
				return err
			}
			defer func() { _ = body.Close() }()
			s.Alive() // start the idle limit, which applies to the first frame too
			return read(s, body)
		})
	}
}

// call sends the request, with retries, and returns the body of a successful response. The caller closes it.
func (sh *shared) call(ctx context.Context, req *providers.Request) (io.ReadCloser, error) {
	s, err := settingsOf(req)
	if err != nil {
		return nil, err
	}
	input, err := s.input()
	if err != nil {
		return nil, err
	}
	a, err := sh.account(ctx, s)
	if err != nil {
		return nil, err
	}
	tap := transport.New(req)
	kept := &keeper{client: tap.Client()}
	out, err := bedrockruntime.New(bedrockruntime.Options{}, a.apply, func(o *bedrockruntime.Options) {
		o.HTTPClient, o.Retryer = kept, retryer(req, tap)
	}).ConverseStream(ctx, input)
	if err != nil {
		kept.close()
		return nil, callError(tap, err)
	}
	_ = out.GetStream().Close() // its body is empty
	return kept.body, nil
}

// apply configures the SDK's client for the account, independently of the process's environment.
func (a account) apply(o *bedrockruntime.Options) {
	o.Region = a.region
	if a.endpoint != "" {
		o.BaseEndpoint = aws.String(a.endpoint)
	}
	if a.key == "" {
		o.Credentials, o.AuthSchemePreference = a.credentials, []string{"sigv4"}
		return
	}
	o.AuthSchemePreference = []string{"httpBearerAuth"}
	o.BearerAuthTokenProvider = bearer.StaticTokenProvider{Token: bearer.Token{Value: a.key}}
	o.BearerAuthSigner = sendKey{}
}
