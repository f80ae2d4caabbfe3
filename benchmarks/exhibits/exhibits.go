// Package exhibits has what nobody should use, kept to show what the warnings are about:
// the naive recipes of the articles, and no lock at all.
package exhibits

import (
	"context"

	"github.com/seed80cd6120/locker/benchmarks/contender"
)

// All returns the exhibits.
func All() []contender.Contender {
	return contender.List(contender.Exhibit, []contender.Contender{
		noLock,
		watchMulti,
		exhibit("naive.one-node",
			"one ephemeral node of a fixed name; every waiter watches it and all try again when it goes", oneNode, nil),
		exhibit("naive.all-children",
			"sequential nodes; every waiter watches the parent's children and all list them at every change", allChildren, nil),
		exhibit("naive.rw-parent",
			"read/write: sequential nodes; everybody watches the parent's children and all list them at every change",
			parentWatched(writer), parentWatched(reader)),
		exhibit("naive.rw-last-writer",
			"read/write: sequential nodes; a reader watches the last writer ahead, a writer whoever is just ahead",
			lastWriterWatched(writer), lastWriterWatched(reader)),
		postgresExhibit("naive.pg-row",
			"a unique row inserted and deleted; asked again after 10 ms if it was there", insertRow),
		postgresExhibit("naive.pg-for-update",
			"SELECT ... FOR UPDATE of a row, in a transaction that is open for as long as the lock is held", selectForUpdate),
		postgresExhibit("naive.pg-advisory",
			"pg_advisory_lock of the name's hash, on a connection that is kept for as long as the lock is held", advisoryLock),
	})
}

// noLock lets everybody in at once.
var noLock = contender.Contender{
	Family: "no-lock",
	Setup:  contender.InProcess,
	Note:   "everybody gets it at once",
	Open: func(context.Context, contender.Config) (contender.Client, error) {
		nothing := func(context.Context) error { return nil }
		return contender.Client{
			Acquire: func(context.Context, string) (contender.Held, error) { return contender.Plain(nothing), nil },
			Close:   contender.Closing(func() {}),
		}, nil
	},
}
