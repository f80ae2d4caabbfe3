package faults

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// closeSession ends somebody else's ZooKeeper session, as anyone can who knows its id and
// its password: by reconnecting to it and saying goodbye. The server makes the
// password of the id, so there is no need to have overheard it.
func closeSession(ctx context.Context, addr string, id int64) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))

	hello := binary.BigEndian.AppendUint32(nil, 0)     // protocol
	hello = binary.BigEndian.AppendUint64(hello, 0)    // last zxid seen
	hello = binary.BigEndian.AppendUint32(hello, 5000) // timeout, ms
	hello = binary.BigEndian.AppendUint64(hello, uint64(id))
	hello = binary.BigEndian.AppendUint32(hello, 16)
	hello = append(hello, sessionPassword(id)...)
	welcome, err := exchange(conn, hello)
	if err != nil {
		return fmt.Errorf("take over session %x: %w", id, err)
	}
	if len(welcome) < 16 || int64(binary.BigEndian.Uint64(welcome[8:])) != id {
		return fmt.Errorf("take over session %x: the server refused", id)
	}
	bye := binary.BigEndian.AppendUint32(nil, 1)         // number of the request
	bye = binary.BigEndian.AppendUint32(bye, 0xFFFFFFF5) // -11, close
	// The server may hang up before its answer is out.
	if _, err := exchange(conn, bye); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("close session %x: %w", id, err)
	}
	return nil
}

// exchange sends one packet and returns the one that comes back.
func exchange(conn io.ReadWriter, b []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint32(size[:])&0xFFFF)
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// sessionPassword is what java.util.Random makes of the id and ZooKeeper's constant.
func sessionPassword(id int64) []byte {
	const superSecret = 0xB3415C00
	const multiplier, mask = 0x5DEECE66D, 1<<48 - 1
	seed := (uint64(id^superSecret) ^ multiplier) & mask
	password := make([]byte, 0, 16)
	for len(password) < 16 {
		seed = (seed*multiplier + 0xB) & mask
		password = binary.LittleEndian.AppendUint32(password, uint32(seed>>16))
	}
	return password
}
