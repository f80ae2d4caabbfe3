package zookeeper

// A watcher is told what happened to a node, once. It is called on the goroutine
// that reads, before anything that came after the news is read.
type watcher struct {
	path string
	tell func(event int32)
}

// A watching is a request for several watches.
type watching struct {
	nodes []*watcher // to be told of the end of a node that should be there
	marks []*watcher // to be told of the making of one that should not
}

// watch returns the request for several watches, whose news are heard from now on.
func (w *wire) watch(x watching) *call {
	w.mu.Lock()
	for _, o := range append(x.nodes, x.marks...) {
		if w.err == nil {
			w.watchers[o.path] = append(w.watchers[o.path], o)
		}
	}
	w.mu.Unlock()
	return watchCall(paths(x.nodes), paths(x.marks))
}

func paths(all []*watcher) []string {
	p := make([]string, len(all))
	for i, o := range all {
		p[i] = o.path
	}
	return p
}

// unwatch makes o deaf and says whether the server may still keep a watch that
// nobody here waits for. nil is allowed.
func (w *wire) unwatch(o *watcher) (left bool) {
	if o == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.watchers[o.path]
	for i := range all {
		if all[i] == o {
			if len(all) == 1 {
				delete(w.watchers, o.path)
				return true
			}
			w.watchers[o.path] = append(all[:i:i], all[i+1:]...)
		}
	}
	return false
}

// happened tells the watchers of a node.
func (w *wire) happened(event int32, path string) {
	w.mu.Lock()
	all := w.watchers[path]
	if len(all) > 0 && event == eventDataChanged {
		w.mu.Unlock()
		// Somebody wrote to the node, which is no news, but the watch is spent.
		w.post(watchCall([]string{path}, nil))
		return
	}
	delete(w.watchers, path)
	w.mu.Unlock()
	for _, o := range all {
		o.tell(event)
	}
}
