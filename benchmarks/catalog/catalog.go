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
	wantRivals, err := chooser(all, contender.Rival, rivals)
	if err != nil {
		return nil, fmt.Errorf("-rivals: %w", err)
	}
	setups := map[contender.Setup]bool{}
	for _, c := range all {
		if c.Role == contender.Ours && wantOurs(c) {
			setups[c.Setup] = true
		}
	}
	picked := func(c contender.Contender) bool {
		if c.Role == contender.Ours {
			return wantOurs(c)
		}
		everything := rivals == "" || rivals == "all"
		some := backends != "" && backends != "all"
		return wantRivals(c) && (!everything || !some || setups[c.Setup])
	}
	var chosen []contender.Contender
	for _, c := range all {
		if (c.Role == contender.Ours || c.Role == contender.Rival) && picked(c) {
			chosen = append(chosen, c)
			setups[c.Setup] = true
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("nothing is left to compare")
	}
	for _, c := range all {
		along := setups[c.Setup] || c.Setup.Service == contender.Memory
		if (c.Role == contender.Floor || c.Role == contender.Exhibit) && along {
			chosen = append(chosen, c)
		}
	}
	slices.SortStableFunc(chosen, byServers)
	return chosen, nil
}

// byServers has those beside each other who stand on the same servers.
func byServers(a, b contender.Contender) int {
	order := []contender.Service{contender.Memory, contender.Redis, contender.ZooKeeper, contender.Etcd, contender.Postgres, contender.MariaDB}
	return cmp.Or(
		cmp.Compare(slices.Index(order, a.Setup.Service), slices.Index(order, b.Setup.Service)),
		cmp.Compare(a.Setup.Nodes, b.Setup.Nodes),
		cmp.Compare(a.Setup.Variant, b.Setup.Variant),
	)
}

func chooser(all []contender.Contender, role contender.Role, list string) (func(contender.Contender) bool, error) {
	switch list {
	case "", "all":
		return func(contender.Contender) bool { return true }, nil
	case "none":
		return func(contender.Contender) bool { return false }, nil
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
