package providers

// Limits are how much is read of what a vendor sends, so that none can fill the memory. A reply that goes beyond one
// ends as an error with the code too_large. 0 is the default, a negative one is no limit.
type Limits struct {
	Body      int64 // bytes of a response, as they come over the wire
	Reply     int64 // bytes of what a reply says, thinks and calls, with its signatures and ids
	Arguments int64 // bytes of the arguments of one call
	Calls     int64 // in a reply
	ErrorBody int64 // bytes of a failing response or of an error's text; what is beyond is no failure of its own
}

// DefaultLimits are those where a request says nothing. What a token takes on the wire may be a hundred times its text.
var DefaultLimits = Limits{Body: 256 << 20, Reply: 16 << 20, Arguments: 4 << 20, Calls: 256, ErrorBody: 64 << 10}

// unlimited is more than anybody sends.
const unlimited = 1 << 62

// Or returns the limits with those of other where they say nothing, and with a number that is never reached for no
// limit.
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
