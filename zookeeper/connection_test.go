package zookeeper

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// When the library comes back to its session it asks to set its watches again, for changes after the last one that it
// knows by then, which an answer may have moved on beyond one that nobody was told of. So it asks for changes after
// none: all watches are told of one.
func TestSplitWatches(t *testing.T) {
	put := func(b []byte, n int) []byte { return binary.BigEndian.AppendUint32(b, uint32(n)) }
	frame := put(put(put(nil, 0), 77), opSetWatches)
	frame = binary.BigEndian.AppendUint64(frame, 1234)
	var want []string
	for list := range 3 {
		frame = put(frame, 20*list)
		for i := range 20 * list {
			path := fmt.Sprintf("/%d/%d/%s", list, i, strings.Repeat("x", 30*i))
			frame = append(put(frame, len(path)), path...)
			want = append(want, path)
		}
	}
	var got []string
	for _, part := range splitWatches(frame) {
		if string(part[4:12]) != string(frame[4:12]) || binary.BigEndian.Uint64(part[12:]) != 0 || int(binary.BigEndian.Uint32(part)) != len(part)-4 {
			t.Fatalf("head %q", part[:20])
		}
		rest := part[20:]
		for list := range 3 {
			n := binary.BigEndian.Uint32(rest)
			rest = rest[4:]
			for range n {
				size := binary.BigEndian.Uint32(rest)
				path := string(rest[4:][:size])
				if path[1] != byte('0'+list) {
					t.Errorf("%s is in list %d", path, list)
				}
				got = append(got, path)
				rest = rest[4+size:]
			}
		}
		if len(rest) > 0 {
			t.Errorf("%q is left", rest)
		}
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
}
