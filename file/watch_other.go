//go:build !linux

package file

// watcher cannot watch anything here, so that waiters look by themselves.
type watcher struct{}

type subscription struct{ changed chan struct{} }

func (*watcher) subscribe() *subscription { return &subscription{} }

func (*watcher) close() {}

func (*subscription) add(string) bool { return false }

func (*subscription) clear() {}
