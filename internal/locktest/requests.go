package locktest

import "cmp"

// Requests returns how many requests something costs, as measure counts them: the least of up to 20 counts, because a machine
// that is late sends some again, and never one too few. It ends with the first count that is no more than most.
func Requests[N cmp.Ordered](most N, measure func() N) N {
	least := measure()
	for i := 1; i < 20 && least > most; i++ {
		least = min(least, measure())
	}
	return least
}
