package schemas_test

import (
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// The digest is part of the protocol: it is SHA-256 of the text that is written here, and differs where anything does
// that it is of. What else a request says is not part of it.
func TestDigestOfARequest(t *testing.T) {
	t.Parallel()
	digest := func(session, nonce string, change func(*schemas.ApprovalRequested)) string {
		t.Helper()
		d := &schemas.ApprovalRequested{Call: "c9", ToolCallID: "t1", ToolName: "bash", Args: []byte(`{"command": "ls <a>"}`)}
		change(d)
		got, err := d.DigestIn(session, nonce)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	same := func(*schemas.ApprovalRequested) {}
	const want = "sha256:" + // of ["s1","c9","N1","bash",{"command":"ls <a>"}]
		"5b9f5559dea44b78763e981d7871ef6fd9b25be6a287c31b97e8d88de76239e4"
	if got := digest("s1", "N1", same); got != want {
		t.Errorf("the digest is %s, want %s", got, want)
	}
	for _, aside := range []func(*schemas.ApprovalRequested){
		func(d *schemas.ApprovalRequested) { d.Args = []byte(`{"command":"ls <a>"}`) },
		func(d *schemas.ApprovalRequested) { d.Reason, d.By, d.TimeoutMs, d.ToolCallID = "why", "who", 7, "t2" },
		func(d *schemas.ApprovalRequested) { d.Digest = want },
	} {
		if got := digest("s1", "N1", aside); got != want {
			t.Errorf("the digest changes to %s", got)
		}
	}
	for what, got := range map[string]string{
		"session": digest("s2", "N1", same), "nonce": digest("s1", "N2", same),
		"call":      digest("s1", "N1", func(d *schemas.ApprovalRequested) { d.Call = "c8" }),
		"tool":      digest("s1", "N1", func(d *schemas.ApprovalRequested) { d.ToolName = "write" }),
		"arguments": digest("s1", "N1", func(d *schemas.ApprovalRequested) { d.Args = []byte(`{"command":"ls  <a>"}`) }),
	} {
		if got == want {
			t.Errorf("another %s has the same digest", what)
		}
	}
	if _, err := (&schemas.ApprovalRequested{Args: []byte(`{`)}).DigestIn("s1", ""); err == nil {
		t.Error("arguments that are no JSON have a digest")
	}
}
