package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed80cd6120/locker/internal/servers"
)

// How a replica takes its master's place.

// failOver kills the master and makes the replica the new one, to which all networks
// lead from then on.
func (s *Servers) failOver(ctx context.Context, nets []*Network) (rejoin func() error, err error) {
	old, heir, err := s.roles(ctx)
	if err != nil {
		return nil, err
	}
	if err := old.Kill(); err != nil {
		return nil, err
	}
	if err := s.promote(ctx, heir, nets); err != nil {
		return nil, err
	}
	return func() error {
		if err := old.RestartEmpty(ctx); err != nil {
			return err
		}
		host, port, _ := strings.Cut(heir.Addr(), ":")
		if _, err := old.Do(ctx, "REPLICAOF", host, port); err != nil {
			return err
		}
		return s.inStep(ctx, old)
	}, nil
}

// promote makes the replica of a dead master the new one, to which all networks lead from
// then on, or waits until the Sentinels have.
func (s *Servers) promote(ctx context.Context, replica *servers.Redis, nets []*Network) error {
	if s.Sentinel != nil {
		return s.becomesMaster(ctx, func(now *servers.Redis) bool { return now == replica })
	}
	if _, err := replica.Do(ctx, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	for _, n := range nets {
		for _, p := range n.Set {
			p.SetTarget(replica.Addr())
			p.Cut()
		}
	}
	return nil
}

// becomesMaster waits until the Sentinels, which are to do so within seconds, have made one the master of whom it is true. A
// Sentinel that stood still does nothing for half a minute.
func (s *Servers) becomesMaster(ctx context.Context, is func(now *servers.Redis) bool) error {
	if err := s.Sentinel.FailOverAfter(ctx, time.Second); err != nil {
		return err
	}
	err := servers.Poll(ctx, func(ctx context.Context) error {
		now, err := s.Sentinel.CurrentMaster(ctx)
		if err == nil && !is(now) {
			err = errors.New("the Sentinels have not failed over")
		}
		return err
	})
	return errors.Join(err, s.Sentinel.FailOverAfter(ctx, time.Minute))
}

// inStep waits until a replica has its master's data.
func (s *Servers) inStep(ctx context.Context, replica *servers.Redis) error {
	return servers.Poll(ctx, func(ctx context.Context) error {
		v, err := replica.Do(ctx, "INFO", "replication")
		if text, _ := v.(string); err == nil && !strings.Contains(text, "master_link_status:up") {
			err = fmt.Errorf("the replica at %s has not reached its master", replica.Addr())
		}
		return err
	})
}

// roles returns who is the master, and who is not.
func (s *Servers) roles(ctx context.Context) (master, replica *servers.Redis, err error) {
	for _, r := range s.Redis {
		v, err := r.Do(ctx, "ROLE")
		if err != nil {
			return nil, nil, err
		}
		if role, _ := v.([]any); len(role) > 0 && role[0] == "master" {
			master = r
		} else {
			replica = r
		}
	}
	if master == nil || replica == nil {
		return nil, nil, errors.New("there are not one master and one replica")
	}
	return master, replica, nil
}

// sentinelFailOver kills the master and waits until the Sentinels have made the other one
// master.
func (s *Servers) sentinelFailOver(ctx context.Context, _ []*Network) (rejoin func() error, err error) {
	old, err := s.Sentinel.CurrentMaster(ctx)
	if err != nil {
		return nil, err
	}
	if err := old.Kill(); err != nil {
		return nil, err
	}
	if err := s.becomesMaster(ctx, func(now *servers.Redis) bool { return now != old }); err != nil {
		return nil, err
	}
	return func() error { return errors.Join(old.Restart(ctx), s.oneMaster(ctx)) }, nil
}

// oneMaster waits until the Sentinels agree on a master, the other server is its replica,
// and has been for longer than the Sentinels need to find something wrong with that.
func (s *Servers) oneMaster(ctx context.Context) error {
	var since time.Time
	var replica *servers.Redis
	err := servers.Poll(ctx, func(ctx context.Context) error {
		master, err := s.Sentinel.CurrentMaster(ctx)
		var is *servers.Redis
		if err == nil {
			is, replica, err = s.roles(ctx)
		}
		if err != nil || master != is {
			since = time.Time{}
			return errors.Join(errors.New("there is not one master"), err)
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < 1500*time.Millisecond {
			return errors.New("there has not been one master for long")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.inStep(ctx, replica)
}
