// Package measure keeps what was measured and does the sums: medians, spreads, ratios
// of paired repetitions, shares, and HDR histograms of latencies.
package measure

import (
	"math"
	"slices"
)

// Median returns the middle of the values, the mean of the two middle ones if their
// number is even, and NaN if there are none. The values are left as they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// Spread returns the least and the greatest value, NaN if there are none.
func Spread(values []float64) (least, greatest float64) {
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(values), slices.Max(values)
}

// Ratio compares two contenders that were measured in turn: the i-th value of one
// is divided by the i-th of the other, and the median of these is taken, so that a
// moment at which the machine was slow hits both sides of a pair and not the ratio.
// It is NaN without a pair.
func Ratio(a, b []float64) float64 {
	var ratios []float64
	for i := range min(len(a), len(b)) {
		if b[i] != 0 {
			ratios = append(ratios, a[i]/b[i])
		}
	}
	return Median(ratios)
}

// Sum returns the sum of counts.
func Sum(counts []int64) (sum int64) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

// Shares says how evenly counts fell on those who competed: the least and the greatest
// as parts of the mean, and the greatest divided by the least (infinite if somebody
// got nothing and somebody something). They are NaN if nobody got anything.
func Shares(counts []int64) (least, greatest, ratio float64) {
	if Sum(counts) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	mean := float64(Sum(counts)) / float64(len(counts))
	low, high := float64(slices.Min(counts)), float64(slices.Max(counts))
	return low / mean, high / mean, high / low
}

// Inversions looks at the order in which numbered arrivals were served: the share of
// pairs that were served in the wrong order (0 in order of arrival, about a half at
// random, 1 in reverse), and the greatest number of later arrivals that went ahead of
// one.
func Inversions(served []int) (share float64, overtaken int) {
	n := len(served)
	wrong := 0
	for i, a := range served {
		ahead := 0
		for _, b := range served[:i] {
			if b > a {
				ahead++
			}
		}
		wrong += ahead
		overtaken = max(overtaken, ahead)
	}
	if n < 2 {
		return 0, 0
	}
	return float64(wrong) / float64(n*(n-1)/2), overtaken
}
