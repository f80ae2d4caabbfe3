package locker

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// maxRecords is how many log records wait for a handler that is slow. What comes beyond
// that is dropped and counted.
const maxRecords = 1000

// logQueue is a slog.Handler that never blocks and has the user's handler decide and handle on
// a goroutine of its own: it may hang, or call the Locker that logs.
type logQueue struct {
	next  slog.Handler
	state *logState
}

// logState is what all handlers made of one by WithAttrs and WithGroup share.
type logState struct {
	mu      sync.Mutex
	records []logRecord
	dropped int
	idle    chan struct{} // of the goroutine that hands the records on; nil if there is none
}

type logRecord struct {
	next   slog.Handler
	ctx    context.Context
	record slog.Record
}

func (q *logQueue) Enabled(context.Context, slog.Level) bool { return true }

func (q *logQueue) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logQueue{next: q.next.WithAttrs(attrs), state: q.state}
}

func (q *logQueue) WithGroup(name string) slog.Handler {
	return &logQueue{next: q.next.WithGroup(name), state: q.state}
}

func (q *logQueue) Handle(ctx context.Context, r slog.Record) error {
	s := q.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) >= maxRecords {
		s.dropped++
		return nil
	}
	s.records = append(s.records, logRecord{q.next, context.WithoutCancel(ctx), r.Clone()})
	if s.idle == nil {
		s.idle = make(chan struct{})
		go s.handOn(s.idle)
	}
	return nil
}

// handOn gives the records to the user's handler until there are no more.
func (s *logState) handOn(idle chan struct{}) {
	defer close(idle)
	for {
		s.mu.Lock()
		records, dropped := s.records, s.dropped
		s.records, s.dropped = nil, 0
		if len(records) == 0 {
			s.idle = nil
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		for _, r := range records {
			if !r.next.Enabled(r.ctx, r.record.Level) {
				continue
			}
			if dropped > 0 {
				r.record.AddAttrs(slog.Int("records dropped before", dropped))
				dropped = 0
			}
			_ = r.next.Handle(r.ctx, r.record)
		}
	}
}

// drain waits until the records so far have been handed on, but not longer than d or ctx.
func (s *logState) drain(ctx context.Context, d time.Duration) {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle == nil {
		return
	}
	enough := time.NewTimer(d)
	defer enough.Stop()
	select {
	case <-idle:
	case <-enough.C:
	case <-ctx.Done():
	}
}
