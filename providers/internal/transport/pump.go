package transport

import (
	"context"
	"io"
)

// pumpBuffer is how many bytes of a response are read ahead.
const pumpBuffer = 8 << 10

// pumped is a body that a goroutine of its own reads. With HTTP/2, reading and closing a body may wait until frames are
// written to a server that does not read them, whatever the request's context says.
type pumped struct {
	*io.PipeReader
	from io.ReadCloser
	stop func() bool
}

// pump returns a body whose Read returns once ctx is done, and whose Close does not wait.
func pump(ctx context.Context, from io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{from}, make([]byte, pumpBuffer))
		_ = w.CloseWithError(err) // nil is the end
	}()
	return &pumped{r, from, context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })}
}

func (p *pumped) Close() error {
	p.stop()
	_ = p.PipeReader.Close()
	go func() { _ = p.from.Close() }()
	return nil
}
