package look

import (
	"testing"
	"time"
)

// A waiter asks within a second after the time of the first holder is over, however long that was, and at least every 25 seconds.
func TestIn(t *testing.T) {
	for left := -time.Second; left < 2*Fallback; left += time.Millisecond {
		for _, first := range []bool{true, false} {
			at := In(left, first)
			if at < 0 || at >= Fallback*5/4 {
				t.Fatalf("%v left: asks in %v", left, at)
			}
			if late := at - left; left >= 0 && late >= time.Second || left >= 0 && left < Fallback && late <= 0 {
				t.Fatalf("%v left: asks %v later", left, late)
			}
		}
	}
}
