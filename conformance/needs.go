package conformance

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
		need need
		has  bool
		why  string
	}{
		{fair, b.Fair, "for backends that claim Fair"},
		{fenced, b.Fenced, "for backends that claim Fenced"},
		{unfenced, !b.Fenced, "for backends that do not claim Fenced"},
		{shareable, b.Shared, "for backends that claim Shared"},
		{unshareable, !b.Shared, "for backends that do not claim Shared"},
		{permits, b.Permits, "for backends that claim Permits"},
		{noPermits, !b.Permits, "for backends that do not claim Permits"},
		{downgrade, b.Downgrade, "for backends that claim Downgrade"},
		{noDowngrade, !b.Downgrade, "for backends that do not claim Downgrade"},
		{inspect, b.Inspect, "for backends that claim Inspect"},
		{noInspect, !b.Inspect, "for backends that do not claim Inspect"},
		{evict, b.Evict, "for backends that claim Evict"},
		{noEvict, !b.Evict, "for backends that do not claim Evict"},
		{atLeast, b.AtLeast, "for backends that claim AtLeast"},
		{noAtLeast, !b.AtLeast, "for backends that do not claim AtLeast"},
		{durable, b.Durable, "for backends that claim Durable"},
	} {
		if n&x.need != 0 && !x.has {
			return x.why, false
		}
	}
	switch {
	case n&process == 0:
	case b.DialClient == nil:
		return "needs Backend.Dial", true
	case !canSignal:
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
