// Package assemble turns what a vendor sends into the common stream of events and the final message.
//
// An API package opens, feeds and ends blocks. This package does the rest: the order and indexes of events, exactly one
// terminal event in every case, aborts, stalled streams, panics, usage with its cost, and keeping keys out of error
// texts. Deltas are appended and never read again, so the cost is linear in the length of the stream.
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
