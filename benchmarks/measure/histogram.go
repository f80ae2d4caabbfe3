package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram holds latencies from a nanosecond to ten minutes with three significant
// digits. It is not for several goroutines at once.
type Histogram struct{ h *hdrhistogram.Histogram }

const longest = 10 * time.Minute

// NewHistogram returns an empty one.
func NewHistogram() *Histogram {
	return &Histogram{hdrhistogram.New(1, int64(longest), 3)}
}

// Record adds one latency. What is out of range counts as the nearest end of it.
func (h *Histogram) Record(d time.Duration) {
	_ = h.h.RecordValue(int64(min(max(d, 1), longest)))
}

// Merge adds all of another.
func (h *Histogram) Merge(other *Histogram) { h.h.Merge(other.h) }

// Count is the number of latencies recorded.
func (h *Histogram) Count() int64 { return h.h.TotalCount() }

// Quantile returns the latency that the share q of all is not above; 0 if there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.Count() == 0 {
		return 0
	}
	return time.Duration(h.h.ValueAtQuantile(q * 100))
}
