package bus

// slots bounds how many messages a process has in hand or has asked for. Each takes one from asking to settling.
type slots chan struct{}

func newSlots(n int) slots {
	s := make(slots, n)
	s.give(n)
	return s
}

// take waits for one free slot and returns with up to want of them; 0 once stop is closed.
func (s slots) take(want int, stop <-chan struct{}) int {
	select {
	case <-s:
	case <-stop:
		return 0
	}
	got := 1
	for got < want {
		select {
		case <-s:
			got++
		default:
			return got
		}
	}
	return got
}

// give returns n slots.
func (s slots) give(n int) {
	for range n {
		s <- struct{}{}
	}
}
