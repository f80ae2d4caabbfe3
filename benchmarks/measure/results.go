package measure

import (
	"encoding/json"
	"math"
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

// Series are the values of one figure, one for each repetition, as they stand in a file.
type Series struct {
	Key
	Median   Number   `json:"median"`
	Least    Number   `json:"least"`
	Greatest Number   `json:"greatest"`
	Values   []Number `json:"values"`
}

// Number is a float64 that JSON can carry: what is infinite is the text "inf", what is
// not a number is null.
type Number float64

// MarshalJSON writes it.
func (n Number) MarshalJSON() ([]byte, error) {
	switch v := float64(n); {
	case math.IsNaN(v):
		return []byte("null"), nil
	case math.IsInf(v, 0):
		return []byte(`"inf"`), nil
	default:
		return json.Marshal(v)
	}
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (n *Number) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case "null":
		*n = Number(math.NaN())
	case `"inf"`:
		*n = Number(math.Inf(1))
	default:
		return json.Unmarshal(b, (*float64)(n))
	}
	return nil
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
	order    []Key // in which they were first added to
	values   map[Key][]float64
	failures []Failure
}

// Add adds the value of one repetition.
func (r *Results) Add(k Key, v float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[Key][]float64{}
	}
	if r.values[k] == nil {
		r.order = append(r.order, k)
	}
	r.values[k] = append(r.values[k], v)
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
	return slices.Clone(r.values[k])
}

// Has reports whether the figure was measured.
func (r *Results) Has(k Key) bool { return len(r.Values(k)) > 0 }

// Median returns the median of one figure, NaN if it was not measured.
func (r *Results) Median(k Key) float64 { return Median(r.Values(k)) }

// All returns every series in the order in which they were first added to.
func (r *Results) All() (all []Series) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.order {
		values := r.values[k]
		least, greatest := Spread(values)
		s := Series{k, Number(Median(values)), Number(least), Number(greatest), nil}
		for _, v := range values {
			s.Values = append(s.Values, Number(v))
		}
		all = append(all, s)
	}
	return all
}

// Failures returns what could not be measured.
func (r *Results) Failures() []Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.failures)
}
