package inbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// freshFor is how long after it was received a message may be delivered without a look whether it is still stored.
const freshFor = 50 * time.Millisecond

// stale reports whether a message that is delivered for the first time may be gone.
func (in *Inbox) stale(f *flight) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return f.doubted || time.Since(f.received) > freshFor
}

// doubt has those looked at that wait behind a message whose session was lost: it may have been deleted.
func (in *Inbox) doubt(f *flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, other := range in.queues[f.queue] {
		other.doubted = true
	}
}

// gone reports whether a message in flight is not in the stream any more: its session was deleted, or it was settled
// elsewhere. It must not be delivered, because the session may have begun anew. A message whose payload was let
// go has it afterwards. The leader of the stream is asked, for another replica may be behind; where it does not answer
// the message counts as there.
func (in *Inbox) gone(ctx context.Context, f *flight) bool {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	js := in.conn.JetStream()
	m, err := js.Conn().RequestWithContext(ctx, natsio.APIPrefix(js)+"STREAM.MSG.GET."+schemas.StreamCommands,
		fmt.Appendf(nil, `{"seq":%d}`, f.seq))
	if err != nil {
		return false
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Header []byte `json:"hdrs"`
			Data   []byte `json:"data"`
		} `json:"message"`
	}
	if json.Unmarshal(m.Data, &answer) != nil {
		return false
	}
	if answer.Error == nil || answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		if stored := answer.Message; stored != nil && f.lacksPayload() {
			in.readStored(f, stored.Header, stored.Data)
		}
		return false
	}
	in.o.Logger.Info("command dropped, it is not in the inbox any more", "session", f.session, "seq", f.seq)
	in.metrics.count("gone")
	return true
}
