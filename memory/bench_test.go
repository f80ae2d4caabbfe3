package memory

import (
	"context"
	"testing"
)

func BenchmarkAlone(b *testing.B) {
	l, err := New()
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		lock, err := l.Acquire(ctx, "orders/42")
		if err != nil {
			b.Fatal(err)
		}
		if err := lock.Release(ctx); err != nil {
			b.Fatal(err)
		}
	}
}
