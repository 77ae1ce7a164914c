package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// All connections share one follower, which begins with the first and ends with the last. Who joins later is told what
// waits, and one that takes nothing is ended without harm to the others.
func TestApprovalsAreFollowedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		followers, following := 0, 0
		changes := make(chan client.Approval)
		fails := make(chan error)
		s := &sharedApprovals{follow: func(ctx context.Context) iter.Seq2[client.Approval, error] {
			return func(yield func(client.Approval, error) bool) {
				followers++
				following++
				defer func() { following-- }()
				for {
					select {
					case a := <-changes:
						if !yield(a, nil) {
							return
						}
					case err := <-fails:
						yield(client.Approval{}, err)
						return
					case <-ctx.Done():
						yield(client.Approval{}, ctx.Err())
						return
					}
				}
			}
		}}
		change := func(call int, waiting bool) client.Approval {
			key := schemas.CallKey(fmt.Sprint("c", call))
			return client.Approval{Session: "s1", Waiting: waiting, Request: schemas.ApprovalRequested{Call: key}}
		}
		type reader struct {
			got  []string
			err  error
			stop func()
		}
		read := func() *reader {
			ctx, cancel := context.WithCancel(t.Context())
			r := &reader{stop: cancel}
			go func() {
				for a, err := range s.all(ctx) {
					if r.err = err; err == nil {
						r.got = append(r.got, fmt.Sprint(a.Request.Call, a.Waiting))
					}
				}
			}()
			synctest.Wait()
			return r
		}
		first := read()
		changes <- change(1, true)
		changes <- change(2, true)
		changes <- change(1, false)
		synctest.Wait()
		later := read()
		slow, _ := s.join()
		changes <- change(3, true)
		synctest.Wait()
		if want := []string{"c1true", "c2true", "c1false", "c3true"}; !slices.Equal(first.got, want) {
			t.Errorf("the first was told %q", first.got)
		}
		if want := []string{"c2true", "c3true"}; !slices.Equal(later.got, want) {
			t.Errorf("the later one was told %q", later.got)
		}
		first.stop()
		synctest.Wait()
		for range maxChanges {
			changes <- change(4, true)
		}
		synctest.Wait()
		for range slow.changes {
		}
		if n := len(later.got); !errors.Is(slow.err, errSlow) || n != maxChanges+2 || later.err != nil {
			t.Errorf("the slow one ended with %v, the later one got %d, %v", slow.err, n, later.err)
		}
		if followers != 1 || following != 1 || !errors.Is(first.err, context.Canceled) {
			t.Errorf("%d followers, %d follow; the first ended with %v", followers, following, first.err)
		}
		later.stop()
		synctest.Wait()
		if following != 0 {
			t.Error("it goes on without a reader")
		}
		anew := read()
		fails <- errDone
		synctest.Wait()
		if !errors.Is(anew.err, errDone) || followers != 2 || following != 0 || len(anew.got) > 0 {
			t.Errorf("%v after %q, %d followers", anew.err, anew.got, followers)
		}
	})
}

var errDone = errors.New("the connection is closed")
