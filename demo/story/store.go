package story

// store keeps the last value that was written, and the greatest token that it has seen.
type store struct{ last write }

// write is a value with the token of the lock under which it was sent.
type write struct {
	value string
	token int64
}

// accept keeps w and returns true, or returns false if w comes from a holder before the last one.
func (s *store) accept(w write) bool {
	if w.token < s.last.token {
		return false
	}
	s.last = w
	return true
}
