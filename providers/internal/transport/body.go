package transport

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	errorBodyTime = 30 * time.Second // for a failing response to be read
	errorBodySize = 64 << 10         // bytes of it that are kept
)

// body is a response's body as the SDK reads it.
type body struct {
	io.ReadCloser
	tap    *Tap
	ctx    context.Context // of the request, without the tap's own limits
	cancel context.CancelFunc
	limit  *time.Timer // nil but for a failing response
}

// Read reads on. What breaks it off is a [CutError], unless the request's context is done.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.limit != nil {
		b.tap.keep(p[:n])
	}
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return n, err
	case b.ctx.Err() != nil:
		return n, b.ctx.Err()
	}
	cut := &CutError{Err: err}
	b.tap.mu.Lock()
	b.tap.cut = cut
	b.tap.mu.Unlock()
	return n, cut
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
		f.Body = append(f.Body, p[:min(len(p), errorBodySize-len(f.Body))]...)
	}
}
