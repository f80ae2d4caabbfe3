package underway

import (
	"sync"
	"testing"
)

// Some may begin and end while somebody waits, who waits for those that were there.
func TestBeginWhileSomebodyWaits(t *testing.T) {
	var g Group
	g.Begin()
	none := g.None()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				g.Begin()
				g.End()
			}
		})
	}
	wg.Wait()
	select {
	case <-none:
		t.Fatal("told that there is none, while there was one")
	default:
	}
	g.End()
	<-none
	<-g.None()
}

func TestGo(t *testing.T) {
	var g Group
	end := make(chan struct{})
	for range 3 {
		g.Go(func() { <-end })
	}
	none := g.None()
	select {
	case <-none:
		t.Fatal("told that there is none, while there were three")
	default:
	}
	close(end)
	<-none
}
