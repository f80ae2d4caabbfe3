package measure

import (
	"maps"
	"slices"
	"sync"
)

// Key says what a series of values is about.
type Key struct {
	Experiment string `json:"experiment"`
	Case       string `json:"case"`
	Contender  string `json:"contender"`
	Metric     string `json:"metric"`
}

// Series are the values of one figure, one for each repetition.
type Series struct {
	Key
	Values []float64
}

// Median of the repetitions.
func (s Series) Median() float64 { return Median(s.Values) }

// Failure is why something has no values.
type Failure struct {
	Experiment string `json:"experiment"`
	Case       string `json:"case,omitempty"`
	Contender  string `json:"contender,omitempty"`
	Reason     string `json:"reason"`
}

// Results are all that was measured in a run. The zero value is ready; it may be used
// from several goroutines.
type Results struct {
	mu         sync.Mutex
	series     map[Key]*Series
	order      []Key
	histograms map[Key]*Histogram
	curves     map[Key]Latencies // read from a file
	failures   []Failure
}

// Add adds the value of one repetition.
func (r *Results) Add(k Key, v float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.series == nil {
		r.series = map[Key]*Series{}
	}
	s := r.series[k]
	if s == nil {
		s = &Series{Key: k}
		r.series[k] = s
		r.order = append(r.order, k)
	}
	s.Values = append(s.Values, v)
}

// AddHistogram merges the latencies of one repetition into those of the others.
func (r *Results) AddHistogram(k Key, h *Histogram) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.histograms == nil {
		r.histograms = map[Key]*Histogram{}
	}
	if r.histograms[k] == nil {
		r.histograms[k] = NewHistogram()
	}
	r.histograms[k].Merge(h)
}

// Fail notes why something could not be measured.
func (r *Results) Fail(f Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.failures, f) {
		r.failures = append(r.failures, f)
	}
}

// Values returns the values of one figure, none if it was not measured.
func (r *Results) Values(k Key) []float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.series[k]; s != nil {
		return slices.Clone(s.Values)
	}
	return nil
}

// Has reports whether the figure was measured.
func (r *Results) Has(k Key) bool { return len(r.Values(k)) > 0 }

// Median returns the median of one figure, NaN if it was not measured.
func (r *Results) Median(k Key) float64 { return Median(r.Values(k)) }

// All returns every series in the order in which they were first added to.
func (r *Results) All() []Series {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Series, 0, len(r.order))
	for _, k := range r.order {
		s := r.series[k]
		all = append(all, Series{s.Key, slices.Clone(s.Values)})
	}
	return all
}

// Curve returns the latencies of one figure, nil if there are none.
func (r *Results) Curve(k Key) []Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.histograms[k]; h != nil {
		return h.Curve()
	}
	return r.curves[k].Points
}

// Latencies are the points of one histogram.
type Latencies struct {
	Key
	Count  int64   `json:"count"`
	Points []Point `json:"points"`
}

// AddCurve adds latencies of which only the curve is left.
func (r *Results) AddCurve(l Latencies) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.curves == nil {
		r.curves = map[Key]Latencies{}
	}
	r.curves[l.Key] = l
}

// Curves returns the curves of all latencies, in the order of their keys.
func (r *Results) Curves() []Latencies {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.Collect(maps.Values(r.curves))
	for k, h := range r.histograms {
		all = append(all, Latencies{k, h.Count(), h.Curve()})
	}
	slices.SortFunc(all, func(a, b Latencies) int { return compareKeys(a.Key, b.Key) })
	return all
}

func compareKeys(a, b Key) int {
	for _, pair := range [][2]string{{a.Experiment, b.Experiment}, {a.Case, b.Case}, {a.Metric, b.Metric}, {a.Contender, b.Contender}} {
		if pair[0] != pair[1] {
			if pair[0] < pair[1] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// Failures returns what could not be measured.
func (r *Results) Failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}
