package observe

import (
	"bytes"
	"net/http"
	"time"
)

// acceptTime limits how long a client may take to accept one write of an answer. A handler that sets its own deadline
// for writing has that one.
const acceptTime = 30 * time.Second

// response bounds the time in which a client accepts what a handler writes. It is used like the writer that it has.
type response struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
	writing func(bool) // told when a write begins and when it has ended
	own     bool       // the handler has set a deadline
}

// Unwrap returns the writer for what response does not change, such as taking over the connection.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// SetWriteDeadline is called by [http.ResponseController].
func (r *response) SetWriteDeadline(at time.Time) error {
	r.own = !at.IsZero()
	return r.control.SetWriteDeadline(at)
}

func (r *response) WriteHeader(status int) {
	r.extend()
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(p []byte) (int, error) {
	r.extend()
	r.writing(true)
	defer r.writing(false)
	return r.ResponseWriter.Write(p)
}

// FlushError is called by [http.ResponseController].
func (r *response) FlushError() error {
	r.extend()
	r.writing(true)
	defer r.writing(false)
	return r.control.Flush()
}

func (r *response) extend() {
	if !r.own {
		_ = r.control.SetWriteDeadline(time.Now().Add(r.limit)) // only writers in tests have no deadlines
	}
}

// gathered has next write its answer into memory, and then sends it. So a client that reads slowly, or not at all, does
// not keep what next limits.
func gathered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{header: w.Header(), status: http.StatusOK}
		next.ServeHTTP(a, r)
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body.Bytes()) // the client is gone
	})
}

// An answer is kept in memory.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
