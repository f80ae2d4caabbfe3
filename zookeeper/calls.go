package zookeeper

import (
	"github.com/go-zookeeper/zk"
	"github.com/seed80cd6120/locker/driver"
)

// The library's calls as they are used here. It knows no contexts: a call comes back when it was
// answered, when its connection is over, or when hosts says that there is no server. Errors say what
// was asked for and wrap the library's own.

// answered records an answer, and returns the error that the caller is to have. An answer for which
// the server had to ask its leader says more: see contact.
func (s *session) answered(sent driver.Instant, leader bool, what, path string, err error) error {
	if wasAnswered(err) {
		s.contact.answer(sent, s.clock.Now(), leader)
	}
	if err != nil {
		return failed(what, path, err)
	}
	return nil
}

// sync waits until the server knows all that the leader knew when it was asked.
func (s *session) sync() error {
	sent := s.clock.Now()
	_, err := s.conn.Sync("/")
	return s.answered(sent, true, "sync", "/", err)
}

func (s *session) multi(what, path string, ops ...any) ([]zk.MultiResponse, error) {
	sent := s.clock.Now()
	made, err := s.conn.Multi(ops...)
	return made, s.answered(sent, true, what, path, err)
}

func (s *session) delete(path string) error {
	sent := s.clock.Now()
	err := s.conn.Delete(path, -1)
	return s.answered(sent, true, "delete", path, err)
}

// stat returns nil if the node is not there.
func (s *session) stat(path string) (*zk.Stat, error) {
	sent := s.clock.Now()
	there, stat, err := s.conn.Exists(path)
	if !there {
		stat = nil
	}
	return stat, s.answered(sent, false, "read", path, err)
}

func (s *session) get(path string) ([]byte, *zk.Stat, error) {
	sent := s.clock.Now()
	data, stat, err := s.conn.Get(path)
	return data, stat, s.answered(sent, false, "read", path, err)
}

// watch asks to be told of the next change of a node that is there, or of its end.
func (s *session) watch(path string) (*zk.Stat, <-chan zk.Event, error) {
	sent := s.clock.Now()
	_, stat, events, err := s.conn.GetW(path)
	return stat, events, s.answered(sent, false, "watch", path, err)
}

// children lists a node, and with watch asks to be told of the next change.
func (s *session) children(path string, watch bool) (names []string, stat *zk.Stat, events <-chan zk.Event, err error) {
	sent := s.clock.Now()
	if watch {
		names, stat, events, err = s.conn.ChildrenW(path)
	} else {
		names, stat, err = s.conn.Children(path)
	}
	return names, stat, events, s.answered(sent, false, "list", path, err)
}
