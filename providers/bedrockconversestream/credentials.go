package bedrockconversestream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/auth/bearer"
	"github.com/aws/smithy-go/logging"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/loopbus/loopbus/providers/internal/failure"
)

const defaultRegion = "us-east-1"

// awsEndpoint is an endpoint of AWS itself, which serves one region.
var awsEndpoint = regexp.MustCompile(`^bedrock-runtime(-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)

// An account is the destination of a request and the credentials for it. Either key or credentials is set.
type account struct {
	key         string // sent unchanged
	credentials aws.CredentialsProvider
	region      string
	endpoint    string // empty for the region's endpoint at AWS
}

// shared caches the configurations that the SDK finds on the machine, by profile. It is safe for concurrent use.
type shared struct {
	attempt time.Duration // limit of each request for credentials; the SDK has none, and all wait for the same one
	turn    chan struct{} // has room for the one who uses configs; the SDK may ask a server for a configuration
	configs map[string]aws.Config
}

func newShared() *shared {
	return &shared{attempt: 10 * time.Second, turn: make(chan struct{}, 1), configs: make(map[string]aws.Config)}
}

// account returns the account for a request, from its options, its environment and the machine's configuration.
func (sh *shared) account(ctx context.Context, s *settings) (account, error) {
	a := account{key: s.APIKey}
	region := cmp.Or(s.Region, s.Env("AWS_REGION", "AWS_DEFAULT_REGION"))
	if id := s.Env("AWS_ACCESS_KEY_ID"); a.key == "" && s.Profile == "" && id != "" {
		static := aws.Credentials{
			AccessKeyID: id, SecretAccessKey: s.Env("AWS_SECRET_ACCESS_KEY"), SessionToken: s.Env("AWS_SESSION_TOKEN"),
		}
		a.credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return static, nil })
	} else if a.key == "" {
		found, err := sh.config(ctx, cmp.Or(s.Profile, s.Env("AWS_PROFILE")))
		if err != nil {
			return a, err
		}
		a.credentials = coded{found.Credentials}
		region = cmp.Or(region, found.Region)
	}
	a.region, a.endpoint = endpointOf(cmp.Or(region, regionOfARN(s.Model.ID)), s.Model.BaseURL)
	return a, nil
}

// config returns the configuration of a profile. The empty profile is the default one.
func (sh *shared) config(ctx context.Context, profile string) (aws.Config, error) {
	select {
	case sh.turn <- struct{}{}:
		defer func() { <-sh.turn }()
	case <-ctx.Done():
		return aws.Config{}, context.Cause(ctx)
	}
	if found, ok := sh.configs[profile]; ok {
		return found, nil
	}
	client := awshttp.NewBuildableClient().WithTimeout(sh.attempt)
	found, err := config.LoadDefaultConfig(ctx, config.WithSharedConfigProfile(profile), config.WithHTTPClient(client),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = client }),
		config.WithLogger(logging.StandardLogger{Logger: log.Default()})) // the SDK's default logger writes to stderr
	if err != nil {
		return found, fmt.Errorf("configuration of AWS, profile %q: %w", profile, err)
	}
	sh.configs[profile] = found
	return found, nil
}

// coded is a source of credentials whose errors have a [schemas.FailureCode].
type coded struct{ aws.CredentialsProvider }

// Retrieve returns the credentials, which the SDK caches. Each caller waits with its own context.
func (c coded) Retrieve(ctx context.Context) (aws.Credentials, error) {
	found, err := c.CredentialsProvider.Retrieve(ctx)
	switch {
	case err == nil:
		return found, nil
	case ctx.Err() != nil:
		return found, context.Cause(ctx)
	}
	var names []string
	var api smithy.APIError
	if errors.As(err, &api) {
		names = []string{api.ErrorCode()}
	}
	status := 0
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	return found, failure.OfCredentials("credentials of AWS", err, status, names...)
}

// endpointOf returns the region to sign for and the endpoint to send to, which is empty for the region's endpoint.
func endpointOf(region, baseURL string) (string, string) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Host == "" {
		return cmp.Or(region, defaultRegion), baseURL
	}
	m := awsEndpoint.FindStringSubmatch(u.Host)
	switch {
	case m == nil:
		return cmp.Or(region, defaultRegion), baseURL
	case region != "" && region != m[2] && m[1] == "":
		return region, ""
	}
	return m[2], baseURL
}

// regionOfARN returns the region in an ARN, or "".
func regionOfARN(id string) string {
	if parts := strings.SplitN(id, ":", 5); len(parts) == 5 && parts[0] == "arn" {
		return parts[3]
	}
	return ""
}

// sendKey signs a request with a Bedrock API key. The SDK's own signer requires HTTPS, which a gateway on the same
// machine may not have.
type sendKey struct{}

func (sendKey) SignWithBearerToken(_ context.Context, token bearer.Token, message bearer.Message) (bearer.Message,
	error) {
	r, ok := message.(*smithyhttp.Request)
	if !ok {
		return nil, fmt.Errorf("sign %T with a key", message)
	}
	r = r.Clone()
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	r.Header.Set("Authorization", "Bearer "+token.Value)
	return r, nil
}
