package measure

import (
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
	mu       sync.Mutex
	series   []Series
	index    map[Key]int // of series
	failures []Failure
}

// Add adds the value of one repetition.
func (r *Results) Add(k Key, v float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, known := r.index[k]
	if !known {
		if r.index == nil {
			r.index = map[Key]int{}
		}
		i = len(r.series)
		r.index[k] = i
		r.series = append(r.series, Series{Key: k})
	}
	r.series[i].Values = append(r.series[i].Values, v)
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
	if i, known := r.index[k]; known {
		return slices.Clone(r.series[i].Values)
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
	return slices.Clone(r.series)
}

// Failures returns what could not be measured.
func (r *Results) Failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}
