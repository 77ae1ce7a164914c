package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

const errorBodyTime = 30 * time.Second // for a failing response to be read

// body is a response's body as the SDK reads it.
type body struct {
	io.ReadCloser
	tap    *Tap
	ctx    context.Context // of the request, without the tap's own limits
	cancel context.CancelFunc
	limit  *time.Timer // nil but for a failing response
	most   int64       // bytes that a response that does not fail may have
	left   int64       // bytes that are still read; the last of a response that does not fail is one too many
}

// Read reads on. What breaks it off is a [CutError], unless the request's context is done, or there is more than the
// request's limits allow. A failing response just ends there.
func (b *body) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err // at once, and not when the connection has noticed
	}
	if b.left <= 0 {
		return 0, b.full()
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if b.limit != nil {
		b.tap.keep(p[:n])
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	}
	return n, &CutError{Err: err}
}

// full is the error behind the last byte that may be read.
func (b *body) full() error {
	if b.limit != nil {
		return io.EOF
	}
	return schemas.NewFailure(schemas.FailureTooLarge,
		fmt.Sprintf("the response has more than %d bytes", b.most))
}

// Close gives up the connection.
func (b *body) Close() error {
	if b.limit != nil {
		b.limit.Stop()
	}
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

func (t *Tap) keep(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.failure; f != nil {
		f.Body = append(f.Body, p...) // as much as may be read
	}
}
