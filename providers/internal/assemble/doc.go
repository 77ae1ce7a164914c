// Package assemble makes of what a vendor sends the stream of events and the message that everybody else knows.
//
// An API package opens blocks, feeds them and ends them; the rest is kept here, once: the order and the indexes of the
// events, exactly one terminal event whatever happens, aborts, stalled streams, panics, usage with its cost, and that
// no key gets into an error text. Deltas are appended, never read again: a stream costs as much as it is long.
//
//	func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
//		return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
//			resp, err := call(ctx, transport.New(req), req) // errors become the message's error text
//			if err != nil {
//				return err
//			}
//			defer resp.Body.Close()
//			s.Start()
//			text := s.OpenText()
//			text.Delta("Hi")
//			text.End()
//			s.SetUsage(schemas.Usage{Input: 3, Output: 1, TotalTokens: 4})
//			s.Finish(schemas.StopStop)
//			return nil
//		})
//	}
package assemble
