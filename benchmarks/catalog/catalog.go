// Package catalog is the list of all that is compared.
package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/exhibits"
	"github.com/seed80cd6120/locker/benchmarks/floors"
	"github.com/seed80cd6120/locker/benchmarks/ours"
	"github.com/seed80cd6120/locker/benchmarks/rivals"
)

// All returns every contender: ours, then the rivals, the floors and the exhibits.
func All() []contender.Contender {
	return slices.Concat(ours.All(), rivals.All(), rivals.InJava(), floors.All(), exhibits.All())
}

// Find returns the contender of a name.
func Find(name string) (contender.Contender, error) {
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
	}
	return contender.Contender{}, fmt.Errorf("no contender %q", name)
}

// Families lists the words that -backends (ours) or -rivals (rivals) understands.
func Families(role contender.Role) []string {
	var families []string
	for _, c := range All() {
		if c.Role == role && !slices.Contains(families, c.Family) {
			families = append(families, c.Family)
		}
	}
	return families
}

// Choose picks contenders. backends and rivals are families or full names, separated by
// commas; "" and "all" are everything, "none" is nothing. Floors and exhibits come along
// with the servers that the backends and rivals chosen use. Rivals come along
// only if a backend chosen runs on their kind of server, unless they are named.
func Choose(all []contender.Contender, backends, rivals string) ([]contender.Contender, error) {
	wantOurs, err := chooser(all, contender.Ours, backends)
	if err != nil {
		return nil, fmt.Errorf("-backends: %w", err)
	}
	wantRival, err := chooser(all, contender.Rival, rivals)
	if err != nil {
		return nil, fmt.Errorf("-rivals: %w", err)
	}
	var chosen []contender.Contender
	setups := map[contender.Setup]bool{}
	choose := func(role contender.Role, want func(contender.Contender) bool) {
		for _, c := range all {
			if c.Role == role && want(c) {
				chosen = append(chosen, c)
				setups[c.Setup] = true
			}
		}
	}
	choose(contender.Ours, wantOurs)
	if everything(rivals) && !everything(backends) {
		wantRival = func(c contender.Contender) bool { return setups[c.Setup] }
	}
	choose(contender.Rival, wantRival)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("nothing is left to compare")
	}
	along := func(c contender.Contender) bool { return setups[c.Setup] || c.Setup == contender.InProcess }
	choose(contender.Floor, along)
	choose(contender.Exhibit, along)
	slices.SortStableFunc(chosen, byServers)
	return chosen, nil
}

// byServers has those beside each other who stand on the same servers.
func byServers(a, b contender.Contender) int {
	return cmp.Or(
		cmp.Compare(slices.Index(contender.Services, a.Setup.Service), slices.Index(contender.Services, b.Setup.Service)),
		cmp.Compare(a.Setup.Nodes, b.Setup.Nodes),
		cmp.Compare(a.Setup.Variant, b.Setup.Variant),
	)
}

func everything(list string) bool { return list == "" || list == "all" }

// chooser returns a function that reports whether a list names a contender of a role.
func chooser(all []contender.Contender, role contender.Role, list string) (func(contender.Contender) bool, error) {
	if everything(list) || list == "none" {
		return func(contender.Contender) bool { return list != "none" }, nil
	}
	words := strings.Split(list, ",")
	for _, w := range words {
		known := func(c contender.Contender) bool { return c.Role == role && (c.Family == w || c.Name == w) }
		if !slices.ContainsFunc(all, known) {
			return nil, fmt.Errorf("%q is none of %s", w, strings.Join(Families(role), ", "))
		}
	}
	return func(c contender.Contender) bool {
		return slices.Contains(words, c.Family) || slices.Contains(words, c.Name)
	}, nil
}
