package measure

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := Median(c.in); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("the median of nothing is not NaN")
	}
	in := []float64{3, 1, 2}
	Median(in)
	if in[0] != 3 {
		t.Error("Median changed its argument")
	}
}

func TestRatioIsOfPairs(t *testing.T) {
	// In the second repetition the machine was ten times slower for both.
	a, b := []float64{200, 20, 210}, []float64{100, 10, 105}
	if got := Ratio(a, b); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
	if !math.IsNaN(Ratio(a, nil)) || !math.IsNaN(Ratio(a, []float64{0, 0, 0})) {
		t.Error("a ratio without a pair is not NaN")
	}
}

func TestShares(t *testing.T) {
	least, greatest, ratio := Shares([]int64{50, 100, 150})
	if least != .5 || greatest != 1.5 || ratio != 3 {
		t.Errorf("got %v %v %v", least, greatest, ratio)
	}
	if _, _, ratio := Shares([]int64{0, 4}); !math.IsInf(ratio, 1) {
		t.Errorf("one got nothing: ratio %v", ratio)
	}
	if _, _, ratio := Shares([]int64{0, 0}); !math.IsNaN(ratio) {
		t.Errorf("nobody got anything: ratio %v", ratio)
	}
}

func TestInversions(t *testing.T) {
	for _, c := range []struct {
		served    []int
		share     float64
		overtaken int
	}{
		{[]int{0, 1, 2, 3}, 0, 0},
		{[]int{3, 2, 1, 0}, 1, 3},
		{[]int{1, 2, 3, 0}, .5, 3},
		{[]int{0}, 0, 0},
	} {
		share, overtaken := Inversions(c.served)
		if share != c.share || overtaken != c.overtaken {
			t.Errorf("Inversions(%v) = %v, %v; want %v, %v", c.served, share, overtaken, c.share, c.overtaken)
		}
	}
}

func TestHistogram(t *testing.T) {
	h := NewHistogram()
	if h.Quantile(.5) != 0 {
		t.Error("an empty histogram has a median")
	}
	for i := 1; i <= 1000; i++ {
		h.Record(time.Duration(i) * time.Millisecond)
	}
	h.Record(-time.Second)
	h.Record(time.Hour)
	near := func(got, want time.Duration) {
		t.Helper()
		if math.Abs(float64(got-want)) > .003*float64(want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	near(h.Quantile(.5), 500*time.Millisecond)
	near(h.Quantile(.99), 991*time.Millisecond)
	near(h.Quantile(1), longest)
	other := NewHistogram()
	other.Merge(h)
	if other.Count() != 1002 {
		t.Errorf("%d after merging", other.Count())
	}
}

func TestResults(t *testing.T) {
	var r Results
	k := Key{"alone", "", "redis", "rate"}
	if r.Has(k) || !math.IsNaN(r.Median(k)) {
		t.Error("empty results have a value")
	}
	for _, v := range []float64{1, math.Inf(1), 3} {
		r.Add(k, v)
	}
	if r.Median(k) != 3 {
		t.Errorf("median %v", r.Median(k))
	}
	b, err := json.Marshal(r.All())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), `"values":[1,"inf",3]`) || !strings.Contains(string(b), `"experiment":"alone"`) {
		t.Errorf("%s", b)
	}
	var again []Series
	if err := json.Unmarshal(b, &again); err != nil || len(again) != 1 || again[0].Key != k || !slices.Equal(again[0].Values, []Number{1, Number(math.Inf(1)), 3}) {
		t.Errorf("read again: %+v, %v", again, err)
	}
	r.Fail(Failure{Reason: "x"})
	r.Fail(Failure{Reason: "x"})
	if len(r.Failures()) != 1 {
		t.Error("the same failure is noted twice")
	}
}
