package transport

import (
	"errors"
	"io"
	"net/http"
	"sync"
)

// outgoing has the body of a request until the vendor answers. net/http and the response refer to the request until the
// end of the response, and so would keep the whole context of a session in memory for as long as the reply streams.
type outgoing struct {
	mu  sync.Mutex
	get func() (io.ReadCloser, error) // nil once it is forgotten
}

var errForgotten = errors.New("the request was answered, and its body is not there any more")

// ownBody returns the request with a body that is forgotten once it was sent, and, for more attempts, once forget is
// called.
func ownBody(r *http.Request) (own *http.Request, forget func()) {
	if r.Body == nil || r.Body == http.NoBody {
		return r, func() {}
	}
	own = r.WithContext(r.Context()) // a copy, because a RoundTripper must not modify the request
	own.Body = &outgoingBody{from: r.Body}
	if r.GetBody == nil {
		return own, func() {}
	}
	o := &outgoing{get: r.GetBody}
	own.GetBody = o.open
	return own, o.forget
}

func (o *outgoing) open() (io.ReadCloser, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.get == nil {
		return nil, errForgotten
	}
	from, err := o.get()
	if err != nil {
		return nil, err
	}
	return &outgoingBody{from: from}, nil
}

func (o *outgoing) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.get = nil
}

// outgoingBody is a body that forgets its bytes at its end. It may be closed while it is read.
type outgoingBody struct {
	mu   sync.Mutex
	from io.ReadCloser // nil at its end
}

// Read implements [io.Reader].
func (b *outgoingBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from == nil {
		return 0, io.EOF
	}
	n, err := b.from.Read(p)
	if err == nil {
		return n, nil
	}
	closed := b.from.Close()
	b.from = nil
	if errors.Is(err, io.EOF) && closed != nil {
		err = closed
	}
	return n, err
}

// Close implements [io.Closer].
func (b *outgoingBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.from == nil {
		return nil
	}
	err := b.from.Close()
	b.from = nil
	return err
}
