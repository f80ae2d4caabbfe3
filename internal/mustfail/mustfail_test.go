package mustfail

import "testing"

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		f      func(t testing.TB)
		text   string
		failed bool
	}{
		{"passes", func(t testing.TB) { t.Log("a") }, "", false},
		{"is skipped", func(t testing.TB) { t.Skipf("no %s", "a"); t.Error("b") }, "no a", false},
		{"goes on after an error", func(t testing.TB) { t.Errorf("a %d", 1); t.Error("failed: ", t.Failed()) }, "a 1\nfailed: true", true},
		{"ends with a fatal error", func(t testing.TB) {
			t.Cleanup(func() { t.Error("c") })
			t.Cleanup(func() { t.Error("b") })
			t.Fatalf("a")
			t.Error("d")
		}, "a\nb\nc", true},
	} {
		if text, failed := Run(t, c.f); text != c.text || failed != c.failed {
			t.Errorf("what %s: %q, failed: %v; want %q, %v", c.name, text, failed, c.text, c.failed)
		}
	}
}
