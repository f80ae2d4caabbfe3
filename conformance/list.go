package conformance

import (
	"context"
	"slices"

	"github.com/seed80cd6120/locker"
)

// Case describes one case of the suite. The test that runs it is
// "TestX/" + Name, where TestX is the test that calls [Run].
type Case struct {
	Name    string
	Promise int    // its number in the list of promises
	Says    string // the sentence that it enforces
	needs   need
}

// Cases returns what there is in the suite, in the order of the promises.
func Cases() []Case {
	var all []Case
	for _, c := range cases {
		all = append(all, Case{c.name, c.promise, c.says, c.needs})
	}
	slices.SortStableFunc(all, func(a, b Case) int { return a.Promise - b.Promise })
	return all
}

// Asked reports whether the case is run on a backend that claims what b claims and
// has all hooks.
func (c Case) Asked(b Backend) bool {
	why, isHook := c.needs.claims(&b)
	return why == "" || isHook
}

// Hooks names the hooks without which the case is not run, such as "Harness.OpenLink".
func (c Case) Hooks() []string {
	return c.needs.missing(&Harness{
		Open: func(context.Context, ...locker.Option) (locker.Locker, error) { return nil, nil },
	})
}
