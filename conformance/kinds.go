package conformance

import (
	"slices"

	"github.com/seed80cd6120/locker"
)

// kind is a kind of lock. A case that has kinds is run once for each of them that the
// backend claims.
type kind struct {
	name  string
	needs need
	own   options // of those whom the case is about
	other options // of those who want the same name and cannot hold it beside them
}

// options are those of an acquisition.
type options []locker.AcquireOption

// with returns the options and more.
func (o options) with(more ...locker.AcquireOption) options {
	return append(slices.Clip(o), more...)
}

var (
	exclusively = &kind{name: "exclusive"}
	sharing     = &kind{name: "shared", needs: shareable, own: options{locker.Shared()}}
	permitted   = &kind{name: "permits", needs: permits, own: options{locker.Permits(2, 3)}, other: options{locker.Permits(2, 3)}}

	// allKinds are for a case in which those whom it is about exclude the others.
	allKinds = []*kind{exclusively, sharing, permitted}

	// aloneKinds are for a case in which they exclude each other, too.
	aloneKinds = []*kind{exclusively, permitted}
)

// claimed returns those of the kinds that the backend claims.
func claimed(kinds []*kind, b *Backend) []*kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(k *kind) bool {
		why, _ := k.needs.claims(b)
		return why != ""
	})
}

// kindNamed returns the kind of that name.
func kindNamed(name string) *kind {
	i := slices.IndexFunc(allKinds, func(k *kind) bool { return k.name == name })
	if i < 0 {
		return exclusively
	}
	return allKinds[i]
}
