package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
)

// setChildVersion makes the next child of a node get the given number, on a server that is
// down and that wrote a snapshot to the folder data since the node is there. Nobody waits for two
// thousand million children: the number is changed in the snapshots.
//
// A snapshot has for each node its path, its data (both with their length before them), its
// ACL (8 bytes) and then czxid, mzxid, ctime, mtime (8 bytes each), version and cversion
// (4 each). It ends with an Adler-32 sum of all before, as 8 bytes, and the string "/".
func setChildVersion(data, path string, version int32) error {
	files, err := filepath.Glob(filepath.Join(data, "snapshot.*"))
	if err != nil {
		return err
	}
	seal := []byte{0, 0, 0, 1, '/'}
	key := append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...)
	changed := 0
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		at := bytes.Index(b, key)
		if at < 0 {
			continue // from before the node was there
		}
		at += len(key)
		if n := int32(binary.BigEndian.Uint32(b[at:])); n > 0 {
			at += int(n)
		}
		at += 4 + 8 + 4*8 + 4
		if !bytes.HasSuffix(b, seal) {
			return fmt.Errorf("%s does not end as a snapshot does", file)
		}
		binary.BigEndian.PutUint32(b[at:], uint32(version))
		end := len(b) - len(seal) - 8
		binary.BigEndian.PutUint64(b[end:], uint64(adler32.Checksum(b[:end])))
		if err := os.WriteFile(file, b, 0o600); err != nil {
			return err
		}
		changed++
	}
	if changed == 0 {
		return errors.New("no snapshot has " + path)
	}
	return nil
}
