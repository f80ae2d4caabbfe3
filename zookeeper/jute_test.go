package zookeeper

import (
	"math/rand/v2"
	"testing"
)

// Whatever a server sends, nothing panics and nothing huge is allocated.
func TestDecoderBearsAnything(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := make([]byte, rng.IntN(64))
		for i := range b {
			b[i] = byte(rng.IntN(256))
			if rng.IntN(2) == 0 {
				b[i] = byte(rng.IntN(3))
			}
		}
		for _, read := range []func(*decoder){
			func(d *decoder) { d.strings() },
			func(d *decoder) { d.string(); d.stat() },
			func(d *decoder) { d.results() },
		} {
			read(&decoder{rest: b})
		}
	}
}

func TestEncoderAndDecoderAgree(t *testing.T) {
	e := request(7, opSync)
	e.strings("a", "", "bc")
	e.int64(-5)
	e.bool(true)
	d := &decoder{rest: e.frame()}
	if n := d.int32(); int(n) != len(e)-4 {
		t.Errorf("length %d of %d", n, len(e))
	}
	if xid, op := d.int32(), d.int32(); xid != 7 || op != opSync {
		t.Errorf("header %d %d", xid, op)
	}
	if s := d.strings(); len(s) != 3 || s[0] != "a" || s[1] != "" || s[2] != "bc" {
		t.Errorf("strings %q", s)
	}
	if v, b := d.int64(), d.bool(); v != -5 || !b || d.err != nil || len(d.rest) != 0 {
		t.Errorf("%d %v %v %d left", v, b, d.err, len(d.rest))
	}
	if d.int32() != 0 || d.err == nil {
		t.Error("reading past the end is no error")
	}
}
