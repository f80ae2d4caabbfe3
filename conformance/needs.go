package conformance

import "github.com/seed80cd6120/locker/internal/child"

// need is what a case cannot do without: claims of the backend, hooks of the
// harness.
type need int

const (
	fair need = 1 << iota
	fenced
	unfenced
	shareable
	unshareable
	permits
	noPermits
	downgrade
	noDowngrade
	inspect
	noInspect
	evict
	noEvict
	atLeast
	noAtLeast
	durable

	link
	process
	destroy
	leftovers
	requests
	stop
	misconfigured
	madeByLocker
)

// claims says why the case is not for this backend. isHook: because of something
// that could be there.
func (n need) claims(b *Backend) (why string, isHook bool) {
	for _, x := range []struct {
		with, without need
		claimed       bool
		claim         string
	}{
		{fair, 0, b.Fair, "Fair"},
		{fenced, unfenced, b.Fenced, "Fenced"},
		{shareable, unshareable, b.Shared, "Shared"},
		{permits, noPermits, b.Permits, "Permits"},
		{downgrade, noDowngrade, b.Downgrade, "Downgrade"},
		{inspect, noInspect, b.Inspect, "Inspect"},
		{evict, noEvict, b.Evict, "Evict"},
		{atLeast, noAtLeast, b.AtLeast, "AtLeast"},
		{durable, 0, b.Durable, "Durable"},
	} {
		switch {
		case n&x.with != 0 && !x.claimed:
			return "for backends that claim " + x.claim, false
		case n&x.without != 0 && x.claimed:
			return "for backends that do not claim " + x.claim, false
		}
	}
	switch {
	case n&process == 0:
	case b.DialClient == nil:
		return "needs Backend.Dial", true
	case !child.CanPause:
		return "needs a system with SIGSTOP", true
	}
	return "", false
}

// missing names the hooks of the harness that the case lacks.
func (n need) missing(h *Harness) (missing []string) {
	for _, x := range []struct {
		need need
		has  bool
		name string
	}{
		{link, h.OpenLink != nil || h.OpenLinkClient != nil, "OpenLink"},
		{process, h.Address != "", "Address"},
		{destroy, h.Destroy != nil, "Destroy"},
		{leftovers, h.Leftovers != nil, "Leftovers"},
		{requests, h.Requests != nil, "Requests"},
		{stop, h.Stop != nil && h.Start != nil, "Stop and Start"},
		{misconfigured, len(h.Misconfigured) > 0, "Misconfigured"},
		{madeByLocker, h.Open != nil, "Open"},
	} {
		if n&x.need != 0 && !x.has {
			missing = append(missing, "Harness."+x.name)
		}
	}
	if h.Open == nil && h.OpenClient == nil {
		missing = append(missing, "Harness.Open")
	}
	return missing
}
