package providers

// Limits bound how much of a vendor's response is read, so that none can exhaust memory. A reply that exceeds a limit
// ends with an error with the code too_large. 0 selects the default, a negative value no limit.
type Limits struct {
	Body      int64 // bytes of a response, as they come over the wire
	Reply     int64 // bytes of JSON of a reply's text, thinking and tool calls, with signatures and ids
	Arguments int64 // bytes of the arguments of one call
	Calls     int64 // in a reply
	ErrorBody int64 // bytes of a failed response or of an error's text; the rest is cut off and is not an error
}

// DefaultLimits apply if a request sets none. A token may take a hundred times its text on the wire.
var DefaultLimits = Limits{Body: 256 << 20, Reply: 16 << 20, Arguments: 4 << 20, Calls: 256, ErrorBody: 64 << 10}

// unlimited stands for no limit. No response reaches it.
const unlimited = 1 << 62

// Or returns the limits, completed with those of other, and with an unreachable number in place of no limit.
func (l Limits) Or(other Limits) Limits {
	for _, n := range []struct {
		limit *int64
		other int64
	}{
		{&l.Body, other.Body}, {&l.Reply, other.Reply}, {&l.Arguments, other.Arguments}, {&l.Calls, other.Calls},
		{&l.ErrorBody, other.ErrorBody},
	} {
		if *n.limit == 0 {
			*n.limit = n.other
		}
		if *n.limit < 0 {
			*n.limit = unlimited
		}
	}
	return l
}
