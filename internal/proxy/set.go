package proxy

import "errors"

// Set is several proxies, such as those before all servers of a client. What is done to it is done to each.
type Set []*Proxy

// NewSet returns a proxy before each server.
func NewSet(targets []string) (Set, error) {
	var s Set
	for _, target := range targets {
		p, err := New(target)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s = append(s, p)
	}
	return s, nil
}

// Each calls do with each proxy.
func (s Set) Each(do func(p *Proxy)) {
	for _, p := range s {
		do(p)
	}
}

func (s Set) Freeze()     { s.Each((*Proxy).Freeze) }
func (s Set) FreezeUp()   { s.Each((*Proxy).FreezeUp) }
func (s Set) FreezeDown() { s.Each((*Proxy).FreezeDown) }
func (s Set) Cut()        { s.Each((*Proxy).Cut) }
func (s Set) Heal()       { s.Each((*Proxy).Heal) }

// CutOff closes all connections and refuses new ones, until Heal.
func (s Set) CutOff() {
	s.Each((*Proxy).Refuse)
	s.Cut()
}

// Addrs returns the addresses of the proxies.
func (s Set) Addrs() (addrs []string) {
	s.Each(func(p *Proxy) { addrs = append(addrs, p.Addr()) })
	return addrs
}

// Close closes all.
func (s Set) Close() error {
	var errs []error
	s.Each(func(p *Proxy) { errs = append(errs, p.Close()) })
	return errors.Join(errs...)
}
