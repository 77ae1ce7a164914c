package bedrockconversestream

import "testing"

func TestPlace(t *testing.T) {
	const standard = "https://bedrock-runtime.us-east-1.amazonaws.com"
	for _, tc := range []struct{ region, url, wantRegion, wantURL string }{
		{"", standard, "us-east-1", standard},
		{"us-east-1", standard, "us-east-1", standard},
		{"eu-west-1", standard, "eu-west-1", ""},
		{"eu-west-1", standard + "/", "eu-west-1", ""},
		{"", "https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1",
			"https://bedrock-runtime.cn-north-1.amazonaws.com.cn"},
		{"us-east-1", "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1",
			"https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com"},
		{"", "https://gateway.example/aws", "us-east-1", "https://gateway.example/aws"},
		{"eu-west-1", "https://gateway.example/aws", "eu-west-1", "https://gateway.example/aws"},
		{"eu-west-1", "", "eu-west-1", ""},
		{"", "", "us-east-1", ""},
	} {
		if region, url := endpointOf(tc.region, tc.url); region != tc.wantRegion || url != tc.wantURL {
			t.Errorf("%q, %q: %q, %q, want %q, %q", tc.region, tc.url, region, url, tc.wantRegion, tc.wantURL)
		}
	}
}

func TestRegionOfARN(t *testing.T) {
	for id, want := range map[string]string{
		"arn:aws:bedrock:eu-west-1:123:inference-profile/x": "eu-west-1", "arn:aws:bedrock": "",
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0": "", "": "",
	} {
		if got := regionOfARN(id); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}
