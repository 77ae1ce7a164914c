package permissions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// stolenBy are subjects of acknowledgements that reach the queue bash. A permission with too many wildcards for the
// queue other would cover them. The number of tokens says which of them the server takes for the stream and which for
// the consumer.
var stolenBy = []string{
	"$JS.ACK.AGENT_TOOL.bash.1.1.1.1.1",
	"$JS.ACK.AGENT_TOOL.bash.AGENT_TOOL.other.1.1.1",
	"$JS.ACK.AGENT_TOOL.bash.1.AGENT_TOOL.other.1.1",
}

// An acknowledgement may ask for the next call (+NXT). Nobody takes a call of another queue with it.
func TestNobodyTakesCallsOfOtherQueues(t *testing.T) {
	t.Parallel()
	var list []permissions.User
	for _, r := range permissions.Roles() {
		if r.OwnAccount() {
			list = append(list, users(r.Name)...)
			list[len(list)-1].Queue = "other"
		}
	}
	render := map[string]func(schemas.Subjects, []permissions.User, []permissions.User) (string, error){
		"one account": permissions.Users, "accounts": permissions.Accounts}
	for name, render := range render {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := render(schemas.Subjects{}, admins, list)
			if err != nil {
				t.Fatal(err)
			}
			a := newAttacked(t, config)
			bash, err := a.conn.JetStream().Consumer(bustest.Deadline(t), schemas.StreamTools, "bash")
			if err != nil {
				t.Fatal(err)
			}
			next := []byte(`+NXT {"batch":1,"expires":5000000000}`)
			for _, u := range list {
				nc := as(t, a.addr, u.Name)
				inbox := nc.NewInbox()
				if _, err := nc.SubscribeSync(inbox); err != nil { // a pull needs somebody who listens
					t.Fatal(err)
				}
				for _, subject := range stolenBy {
					if err := nc.PublishRequest(subject, inbox, next); err != nil {
						t.Fatal(err)
					}
				}
				if err := nc.FlushTimeout(10 * time.Second); err != nil {
					t.Fatal(err)
				}
				a.passed(u.Name)
				switch info, err := bash.Info(bustest.Deadline(t)); {
				case err != nil:
					t.Fatal(err)
				case info.NumWaiting+info.NumAckPending > 0:
					t.Fatalf("%s has a call of the queue bash: %d wait, %d are in flight", u.Name, info.NumWaiting,
						info.NumAckPending)
				}
			}
			if _, err := a.conn.NATS().Request(stolenBy[0], next, 10*time.Second); err != nil { // the admin takes it so
				t.Error(err)
			}
		})
	}
}

// A worker acknowledges calls of its own queue with both forms of the subject.
func TestAWorkerMayAcknowledge(t *testing.T) {
	t.Parallel()
	g, err := users(permissions.Worker)[0].Grant(schemas.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"$JS.ACK.AGENT_TOOL.bash.1.2.3.4.5", "$JS.ACK._.hash.AGENT_TOOL.bash.1.2.3.4.5",
		"$JS.ACK._.hash.AGENT_TOOL.bash.1.2.3.4.5.random.more"} {
		covered := 0
		for _, own := range g.Publish {
			if covers(own, subject) {
				covered++
			}
		}
		if covered != 1 {
			t.Errorf("%s is covered by %d of %s", subject, covered, strings.Join(g.Publish, ", "))
		}
	}
}
