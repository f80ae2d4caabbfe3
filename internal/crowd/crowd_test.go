package crowd

import "testing"

func TestCrowd(t *testing.T) {
	var c Crowd
	c.Met(false)
	if c.Expected() {
		t.Error("expects somebody although nobody was ever met")
	}
	c.Met(true)
	for i := range Lasts {
		if !c.Expected() {
			t.Fatalf("expects nobody after %d that met nobody", i)
		}
		c.Met(false)
	}
	if c.Expected() {
		t.Errorf("expects somebody after %d that met nobody", Lasts)
	}
}
