package file

import (
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// watcher tells when files change, over one inotify instance, which is made when it is needed.
type watcher struct {
	mu     sync.Mutex
	fd     int
	file   *os.File // of fd; nil before the first use
	read   sync.WaitGroup
	closed bool
	told   map[int32][]*subscription // by watch descriptor
}

// subscription is what one waiter watches.
type subscription struct {
	w       *watcher
	changed chan struct{}
	watches []int32
}

func (w *watcher) subscribe() *subscription {
	return &subscription{w: w, changed: make(chan struct{}, 1)}
}

// add watches the file for one change: its removal, its renaming, a touch, or that a process which could write to it
// has closed it. It returns false if it cannot, for want of inotify instances or watches or because the file is not
// there.
func (s *subscription) add(path string) bool {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.start() {
		return false
	}
	wd, err := syscall.InotifyAddWatch(w.fd, path,
		syscall.IN_ATTRIB|syscall.IN_CLOSE_WRITE|syscall.IN_DELETE_SELF|syscall.IN_MOVE_SELF|syscall.IN_ONESHOT)
	if err != nil {
		return false
	}
	w.told[int32(wd)] = append(w.told[int32(wd)], s)
	s.watches = append(s.watches, int32(wd))
	return true
}

// clear ends all watches of s.
func (s *subscription) clear() {
	w := s.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wd := range s.watches {
		rest := without(w.told[wd], s)
		if len(rest) > 0 {
			w.told[wd] = rest
		} else if w.told[wd] != nil {
			delete(w.told, wd)
			if w.file != nil { // otherwise fd may be somebody else's by now
				_, _ = syscall.InotifyRmWatch(w.fd, uint32(wd)) // it has ended by itself if there was an event
			}
		}
	}
	s.watches = s.watches[:0]
	select {
	case <-s.changed:
	default:
	}
}

func without(all []*subscription, s *subscription) (rest []*subscription) {
	for _, o := range all {
		if o != s {
			rest = append(rest, o)
		}
	}
	return rest
}

// start makes the instance if there is none; w.mu is held.
func (w *watcher) start() bool {
	if w.file != nil || w.closed {
		return w.file != nil
	}
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return false
	}
	f := os.NewFile(uintptr(fd), "inotify")
	w.fd, w.file, w.told = fd, f, make(map[int32][]*subscription)
	w.read.Go(func() { w.events(f) })
	return true
}

// events passes events on until f is closed.
func (w *watcher) events(f *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		w.mu.Lock()
		for i := 0; i+syscall.SizeofInotifyEvent <= n; {
			event := (*syscall.InotifyEvent)(unsafe.Pointer(&buf[i]))
			w.tell(event.Wd, event.Mask)
			i += syscall.SizeofInotifyEvent + int(event.Len)
		}
		w.mu.Unlock()
	}
}

// tell wakes those who watch by that descriptor or, if events were lost, all.
func (w *watcher) tell(wd int32, mask uint32) {
	if mask&syscall.IN_Q_OVERFLOW != 0 {
		for _, all := range w.told {
			wake(all)
		}
		return
	}
	wake(w.told[wd])
	delete(w.told, wd)
}

func wake(all []*subscription) {
	for _, s := range all {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
}

// close ends the goroutine.
func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	w.mu.Unlock()
	w.read.Wait()
}
