package zookeeper

import (
	"math/rand/v2"
	"strings"
	"testing"
)

const someID = "0123456789abcdef0123456789abcdef"

func TestParseNode(t *testing.T) {
	for _, c := range []struct {
		child string
		seq   int32
		ok    bool
	}{
		{someID + "-lock-0000000000", 0, true},
		{someID + "-lock-0000000012", 12, true},
		{someID + "-lock-2147483647", 2147483647, true},
		{someID + "-lock--2147483648", -2147483648, true},
		{someID + "-lock--000000001", -1, true},
		{someID + "-lock-2147483648", 0, false},
		{someID + "-lock-", 0, false},
		{someID + "-lock-12x0000000", 0, false},
		{someID + "-passed", 0, false},
		{strings.ToUpper(someID) + "-lock-0000000012", 0, false},
		{"_c_" + someID + "-lock-0000000012", 0, false},
		{"_c_short", 0, false},
		{"lock-0000000001", 0, false},
		{"", 0, false},
		{"\xff", 0, false},
	} {
		id, seq, ok := parseNode(c.child)
		if ok != c.ok || ok && (seq != c.seq || id != someID) {
			t.Errorf("parseNode(%q) = %q, %d, %v", c.child, id, seq, ok)
		}
	}
}

func TestBeforeGoesOnAfterTheLastNumber(t *testing.T) {
	for _, c := range [][2]int32{{0, 1}, {1<<31 - 1, -1 << 31}, {-1 << 31, -1<<31 + 1}, {-1, 0}, {1<<31 - 5, -1<<31 + 5}} {
		if !before(c[0], c[1]) || before(c[1], c[0]) {
			t.Errorf("%d is not before %d", c[0], c[1])
		}
	}
}

func TestLineUp(t *testing.T) {
	node := func(letter, seq string) string { return strings.Repeat(letter, 32) + mark + seq }
	children := []string{
		"_c_x", "lock-0000000001", "", strings.Repeat("a", 32) + "-passed",
		node("b", "2147483647"), node("c", "-2147483648"), node("a", "2147483646"), node("d", "-2147483647"),
	}
	rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
	for id, want := range map[string]line{
		"a": {own: node("a", "2147483646")},
		"b": {own: node("b", "2147483647"), ahead: node("a", "2147483646"), second: true},
		"c": {own: node("c", "-2147483648"), ahead: node("b", "2147483647")},
		"d": {own: node("d", "-2147483647"), ahead: node("c", "-2147483648")},
		"e": {},
	} {
		if got := lineUp(children, strings.Repeat(id, 32)); got != want {
			t.Errorf("%s: %+v, want %+v", id, got, want)
		}
	}
}

// Two nodes of one claim can only come of a create that was thought lost. The first
// has to count, or the claim would wait for itself.
func TestLineUpOfClaimWithTwoNodes(t *testing.T) {
	l := lineUp([]string{someID + "-lock-0000000007", someID + "-lock-0000000003"}, someID)
	if l.own != someID+"-lock-0000000003" || l.ahead != "" {
		t.Errorf("%+v", l)
	}
}
