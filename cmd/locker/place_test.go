//go:build unix

package main

import "testing"

// place returns the URL of locks that no other test uses.
func place(t *testing.T) string {
	t.Helper()
	return "file://" + t.TempDir()
}

// places returns URLs of locks that no other test uses, by what they are.
func places(t *testing.T) map[string]string {
	t.Helper()
	places := map[string]string{"file": place(t)}
	if !testing.Short() {
		_, places["redis"] = newRedis(t)
	}
	return places
}
