package natsws

import "testing"

func TestCaller(t *testing.T) {
	t.Parallel()
	const jwt = "e30.eyJzdWIiOiJVQSJ9.c2ln" // of the subject UA
	for line, want := range map[string]string{
		`CONNECT {"user":"ann","pass":"x"}`:                   "user ann",
		`CONNECT {"USER":"ann"} `:                             "user ann", // as the server reads it
		`CONNECT {"nkey":"UA","sig":"x","user":""}`:           "key UA",
		`CONNECT {"jwt":"` + jwt + `","sig":"x"}`:             "key UA",
		`CONNECT {"jwt":"` + jwt + `","nkey":"UA"}`:           "key UA",
		`CONNECT {"jwt":"` + jwt + `","nkey":"UB"}`:           "",
		`CONNECT {"jwt":"` + jwt + `","user":"ann"}`:          "",
		`CONNECT {"jwt":"` + jwt + `","auth_token":"t"}`:      "",
		`CONNECT {"jwt":"no JWT","user":"ann"}`:               "",
		`CONNECT {"jwt":"a.!.c"}`:                             "",
		`CONNECT {"nkey":"UA","user":"ann"}`:                  "",
		`CONNECT {"user":"ann","auth_token":"t"}`:             "",
		`CONNECT {"auth_token":"t"}`:                          "",
		`CONNECT {}`:                                          "",
		`CONNECT {"user":"ann"`:                               "",
		`CONNECT {"user":"ann"}` + "\n" + `CONNECT {"a":"b"}`: "",
		`PING`: "",
	} {
		if got := callerOf([]byte(line)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for remote, want := range map[string]string{
		"127.0.0.1:80":             "address 127.0.0.1/32",
		"[::ffff:127.0.0.1]:80":    "address 127.0.0.1/32",
		"[2001:db8:1:2:3:4::5]:80": "address 2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":        "address fe80::/64",
		"@":                        "address @",
	} {
		if got := addressOf(remote); got != want {
			t.Errorf("%s: %q, want %q", remote, got, want)
		}
	}
}
