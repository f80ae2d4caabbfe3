package exhibits

import "testing"

func TestLastAhead(t *testing.T) {
	children := []string{"r-0000000005", "w-0000000002", "r-0000000001", "w-0000000007", "r-0000000003", "w-0000000004"}
	for _, c := range []struct{ path, kind, want string }{
		{"/q/r-0000000001", reader, ""},
		{"/q/w-0000000002", writer, "r-0000000001"},
		{"/q/r-0000000003", reader, "w-0000000002"},
		{"/q/w-0000000004", writer, "r-0000000003"},
		{"/q/r-0000000005", reader, "w-0000000004"},
		{"/q/w-0000000007", writer, "r-0000000005"},
	} {
		if got := lastAhead(children, c.path, c.kind); got != c.want {
			t.Errorf("%s waits for %q, want %q", c.path, got, c.want)
		}
	}
}
