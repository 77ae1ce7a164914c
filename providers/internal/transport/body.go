package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// errorBodyTime limits the time to read the body of a failed response. A server needs far less to send an error.
const errorBodyTime = 30 * time.Second

// body is the body of a response. The SDK reads it.
type body struct {
	io.ReadCloser
	tap    *Tap
	ctx    context.Context // of the request, without the tap's own limits
	cancel context.CancelFunc
	limit  *time.Timer // calls cancel after errorBodyTime; nil for a successful response
	most   int64       // the limit for the bytes of a successful response
	left   int64       // bytes that may still be read; for a successful response one more than the limit
	server string      // which has turns of its own
	turn   turn        // to decode what was read last
}

// Read reads from the response. If the connection breaks, the error is a [CutError]. If the request's context is done,
// it is the cause of that. A successful response that exceeds the request's limits is an error with the code
// too_large; a failed response ends at its limit.
func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx) // return at once; the connection may notice later
	}
	if b.left <= 0 {
		return 0, b.limitError()
	}
	b.turn.leave()
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	switch {
	case b.limit != nil:
		b.tap.keep(p[:n])
	case n > 0:
		b.turn.take(b.ctx, b.server)
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case b.ctx.Err() != nil:
		return n, context.Cause(b.ctx)
	}
	return n, &CutError{Err: err}
}

// limitError returns the error of a read after the last byte that may be read.
func (b *body) limitError() error {
	if b.limit != nil {
		return io.EOF
	}
	return schemas.NewFailure(schemas.FailureTooLarge,
		fmt.Sprintf("the response has more than %d bytes", b.most))
}

// Close closes the body and cancels the attempt.
func (b *body) Close() error {
	if b.limit != nil {
		b.limit.Stop()
	}
	b.turn.leave()
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// keep appends p to the body of the failure. [body.Read] limits its size.
func (t *Tap) keep(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.failure; f != nil {
		f.Body = append(f.Body, p...)
	}
}
