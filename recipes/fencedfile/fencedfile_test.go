//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package fencedfile

import (
	"context"
	"errors"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/seed80cd6120/locker/recipes/internal/late"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			log.Fatal(err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	late.Test(t, func(_ context.Context, token int64, value string) error {
		return Write(path, token, []byte(value))
	}, func(context.Context) (string, error) {
		content, _, err := Read(path)
		return string(content), err
	}, ErrLate)
}

// Of many writers at the same time the one with the greatest token is the last, and none leaves anything behind.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state")
	var wg sync.WaitGroup
	for token := range int64(20) {
		wg.Go(func() {
			if err := Write(path, token, nil); err != nil && !errors.Is(err, ErrLate) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, token, err := Read(path); token != 19 || err != nil {
		t.Errorf("token %d, %v", token, err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 2 {
		t.Errorf("%v, %v; want the file and its lock", files, err)
	}
}

// What is not such a file is not overwritten.
func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, 1, nil); err == nil {
		t.Error("overwritten")
	}
}
