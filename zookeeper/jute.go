package zookeeper

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// The operations of ZooKeeper's protocol that are spoken here.
const (
	opCreate          int32 = 1
	opDelete          int32 = 2
	opExists          int32 = 3
	opGetData         int32 = 4
	opSetData         int32 = 5
	opGetChildren     int32 = 8
	opSync            int32 = 9
	opMulti           int32 = 14
	opRemoveWatches   int32 = 18
	opCreateContainer int32 = 19
	opAuth            int32 = 100
	opSetWatches      int32 = 101
	opClose           int32 = -11
)

// Numbers of requests that mean something to the server or the library.
const (
	xidEvent int32 = -1
	xidPing  int32 = -2
	xidAuth  int32 = -4
)

// Kinds of events.
const (
	eventCreated     int32 = 1
	eventDeleted     int32 = 2
	eventDataChanged int32 = 3
)

// watchData, in a request to remove watches, means those for a node's data and
// its existence.
const watchData int32 = 2

// errUnimplemented is what a server says to a request that it is too old for,
// before it hangs up.
var errUnimplemented = errors.New("zookeeper: the server does not know this request")

// codes are the errors of the server that mean something here or to an operator.
var codes = map[int32]error{
	-6:   errUnimplemented,
	-8:   zk.ErrBadArguments,
	-101: zk.ErrNoNode,
	-102: zk.ErrNoAuth,
	-110: zk.ErrNodeExists,
	-111: zk.ErrNotEmpty,
	-112: zk.ErrSessionExpired,
	-114: zk.ErrInvalidACL,
	-115: zk.ErrAuthFailed,
	-118: zk.ErrSessionMoved,
}

func codeError(code int32) error {
	if code == 0 {
		return nil
	}
	if err := codes[code]; err != nil {
		return err
	}
	return fmt.Errorf("zookeeper: error %d: %w", code, zk.ErrUnknown)
}

// An encoder writes one request, length first, in the encoding of ZooKeeper.
type encoder []byte

func request(xid, op int32) encoder {
	e := make(encoder, 4, 256)
	e.int32(xid)
	e.int32(op)
	return e
}

func (e *encoder) int32(v int32) { *e = binary.BigEndian.AppendUint32(*e, uint32(v)) }
func (e *encoder) int64(v int64) { *e = binary.BigEndian.AppendUint64(*e, uint64(v)) }

func (e *encoder) string(s string) {
	e.int32(int32(len(s)))
	*e = append(*e, s...)
}

func (e *encoder) bool(b bool) {
	var v byte
	if b {
		v = 1
	}
	*e = append(*e, v)
}

func (e *encoder) strings(all ...string) {
	e.int32(int32(len(all)))
	for _, s := range all {
		e.string(s)
	}
}

// create writes the body that all requests to create a node have.
func (e *encoder) create(path, data string, acl []zk.ACL, flags int32) {
	e.string(path)
	e.string(data)
	e.int32(int32(len(acl)))
	for _, a := range acl {
		e.int32(a.Perms)
		e.string(a.Scheme)
		e.string(a.ID)
	}
	e.int32(flags)
}

// op begins the next part of a multi request; -1 ends it.
func (e *encoder) op(op int32) {
	e.int32(op)
	e.bool(op == -1)
	e.int32(-1)
}

// number sets the request's number.
func (e encoder) number(xid int32) { binary.BigEndian.PutUint32(e[4:], uint32(xid)) }

// frame fills in the length.
func (e encoder) frame() []byte {
	binary.BigEndian.PutUint32(e, uint32(len(e)-4))
	return e
}

var errShort = errors.New("zookeeper: reply cut short")

// A decoder reads a reply. After the first thing that is missing it reads zeros
// and keeps the error.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.rest) {
		d.err, d.rest = errShort, nil
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) bool() bool {
	b := d.take(1)
	return b != nil && b[0] != 0
}

func (d *decoder) string() string {
	n := d.int32()
	if n < 0 { // null
		return ""
	}
	return string(d.take(int(n)))
}

func (d *decoder) strings() []string {
	n := int(d.int32())
	if n < 0 || n > len(d.rest)/4 {
		if n != -1 {
			d.err = errShort
		}
		return nil
	}
	all := make([]string, 0, n)
	for range n {
		all = append(all, d.string())
	}
	return all
}

// stat is the part of a node's Stat that is needed here.
type stat struct {
	czxid    int64 // of the transaction that made it
	version  int32 // how often it was written to
	owner    int64 // the session, if the node is ephemeral
	children int32
	pzxid    int64 // of the transaction that made or deleted a child last
}

func (d *decoder) stat() (s stat) {
	s.czxid = d.int64()
	d.take(8 + 8 + 8) // mzxid, ctime, mtime
	s.version = d.int32()
	d.take(4 + 4) // the versions of its children and its ACL
	s.owner = d.int64()
	d.take(4) // length of the data
	s.children = d.int32()
	s.pzxid = d.int64()
	return s
}

// results are those of a multi request: the path of the node it made, the Stat of
// the one it wrote to, or the first error.
type results struct {
	path string
	stat stat
	err  error
}

func (d *decoder) results() (r results) {
	for d.err == nil {
		op, done := d.int32(), d.bool()
		d.int32()
		if done {
			break
		}
		switch op {
		case opCreate:
			r.path = d.string()
		case opSetData:
			r.stat = d.stat()
		case opDelete:
		case -1:
			if err := codeError(d.int32()); r.err == nil {
				r.err = err
			}
		default:
			d.err = fmt.Errorf("zookeeper: result of a multi request has type %d", op)
		}
	}
	if d.err != nil {
		r.err = d.err
	}
	return r
}
