package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"
)

// tokens gives tokens that rise over all names and processes. The last one is the name of the only file in dir. To
// rename that file is to take a token: it succeeds for one process and, the file being gone, for no other.
type tokens struct {
	folder folder
	dir    string
	last   atomic.Int64 // as far as this process knows
}

// take returns a token greater than all that were taken before, and how many of those that follow it nobody else will
// get. It is at least the time of day, so that tokens rise also after a loss of the file.
func (k *tokens) take(spare int32) (token, more int64, err error) {
	for range 10_000 {
		last := k.last.Load()
		if last == 0 {
			if last, err = k.read(); err != nil {
				return 0, 0, err
			}
		}
		now := time.Now().UnixMicro()
		token = max(last+1, now)
		// A block is at most a millisecond ahead of the time, or the clock would run away.
		more = min(int64(spare), max(0, now+1000-token))
		err = os.Rename(k.path(last), k.path(token+more))
		switch {
		case err == nil:
			k.last.Store(token + more)
			return token, more, nil
		case !errors.Is(err, fs.ErrNotExist):
			return 0, 0, failed(err)
		}
		if last, err = k.read(); err != nil {
			return 0, 0, err
		}
		k.last.Store(last)
	}
	return 0, 0, fmt.Errorf("%s: the file whose name is the last token cannot be renamed", k.dir)
}

func (k *tokens) path(token int64) string { return filepath.Join(k.dir, fmt.Sprintf("%019d", token)) }

// read returns the last token. It makes the file if it is not there.
func (k *tokens) read() (int64, error) {
	for range 100 {
		names, err := readNames(k.dir)
		if ignoreMissing(err) != nil {
			return 0, failed(err)
		}
		found, last := false, int64(0)
		for _, name := range names {
			if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= last && len(name) == 19 {
				found, last = true, n
			}
		}
		if found {
			// There is more than one if the file was removed by hand, or made by two at once.
			for _, name := range names {
				if n, err := strconv.ParseInt(name, 10, 64); err == nil && n < last {
					_ = os.Remove(filepath.Join(k.dir, name))
				}
			}
			return last, nil
		}
		if err := k.folder.mkdirAll(k.dir); err != nil {
			return 0, failed(err)
		}
		f, err := os.OpenFile(k.path(0), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) // another user's could not be opened
		if err == nil {
			err = f.Close()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return 0, failed(err)
		}
	}
	return 0, fmt.Errorf("%s: there is no file whose name is the last token", k.dir)
}

// readNames returns the names of the files in dir.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}
