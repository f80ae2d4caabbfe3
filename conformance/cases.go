package conformance

import "slices"

// promises are the headings of the list of promises.
var promises = map[int]string{
	1:  "exclusion",
	2:  "fencing",
	3:  "loss is told first",
	4:  "death frees",
	5:  "no ghosts",
	6:  "prompt",
	7:  "release is safe",
	8:  "waiting is cheap",
	9:  "fair",
	10: "one Locker, many goroutines",
	11: "any name",
	12: "no litter",
	13: "errors tell the truth",
	14: "outage",
	15: "Close",
}

// cases are all there are. Those that wait longest come first, so that they do
// not run alone at the end.
var cases = slices.Concat(
	cheapCases, deathCases, lossCases, outageCases, ghostCases,
	exclusionCases, fencingCases, promptCases, releaseCases, fairCases,
	manyCases, nameCases, litterCases, errorCases, closeCases, sharedCases, permitCases, mixedCases,
	downgradeCases, severalCases, reentryCases, atLeastCases, inspectCases, evictCases,
	wantedCases, leadCases, handOverCases, withinCases,
)
