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

// Max returns the longest.
func (h *Histogram) Max() time.Duration { return time.Duration(h.h.Max()) }

// curve are the quantiles that a Curve has. The last nines are close to each other, as
// they are drawn far apart.
var curve = []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .98, .99, .995, .998, .999, 1}

// Point is one point of a curve: the share Q of latencies is at most Nanoseconds.
type Point struct {
	Q           float64 `json:"q"`
	Nanoseconds int64   `json:"ns"`
}

// Curve returns the points that are kept in the JSON file and drawn.
func (h *Histogram) Curve() []Point {
	var points []Point
	for _, q := range curve {
		points = append(points, Point{q, int64(h.Quantile(q))})
	}
	return points
}
