package servers

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// EnvZooKeeperJars names a folder with ZooKeeper's jars (the lib folder of a release),
// for systems where they are not Debian's.
const EnvZooKeeperJars = "LOCKER_ZOOKEEPER_JARS"

// ZooKeeperOptions say how a ZooKeeper server is to be started. The zero value is one
// that starts fast, ticks fast and does not wait for the disk.
type ZooKeeperOptions struct {
	// Tick is the length of a tick, 500 ms if zero. Sessions may last from two ticks up
	// to a minute.
	Tick time.Duration
	// Sync makes the server wait for the disk on every write, as it does by default
	// outside of tests. (Data survives Kill either way.)
	Sync bool
	// Config are further lines of the configuration, name to value.
	Config map[string]string
	// Properties are system properties of the JVM, such as
	// "znode.container.checkIntervalMs": "500", which has empty containers removed soon.
	Properties map[string]string
	// FullJIT lets the JVM compile as it does in production. Without it the server
	// starts faster and runs slower.
	FullJIT bool
}

func (o ZooKeeperOptions) plain() bool {
	return o.Tick == 0 && !o.Sync && len(o.Config) == 0 && len(o.Properties) == 0 && !o.FullJIT
}

// ZooKeeper is one ZooKeeper server. One request, for Requests, is one packet of a
// client: also the pings by which a client keeps its session, and the packet that opens
// one.
type ZooKeeper struct {
	*Server
	asked atomic.Int64 // four-letter words that we sent, which count as packets too
}

// StartZooKeeper starts one ZooKeeper server.
func StartZooKeeper(ctx context.Context, opts ZooKeeperOptions) (*ZooKeeper, error) {
	e, err := StartZooKeeperEnsemble(ctx, 1, opts)
	if err != nil {
		return nil, err
	}
	return e.Members[0], nil
}

// newZooKeeper prepares a member of an ensemble.
func newZooKeeper(opts ZooKeeperOptions, e *ZooKeeperEnsemble) (*ZooKeeper, error) {
	java, err := find("java", EnvZooKeeper)
	if err != nil {
		return nil, err
	}
	classes, err := zooKeeperClasses()
	if err != nil {
		return nil, err
	}
	s, err := newServer("zookeeper", 3, nil) // clients, followers, elections
	if err != nil {
		return nil, err
	}
	z := &ZooKeeper{Server: s}
	z.bind()
	s.command = func() (string, []string, error) {
		members, err := e.introduce(z)
		if err != nil {
			return "", nil, err
		}
		file, err := z.configure("zoo.cfg", append(z.config(opts), members...))
		args := append(jvmArgs(opts), "-cp", classes, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
		return java, args, err
	}
	return z, nil
}

func (z *ZooKeeper) bind() {
	z.ready = z.serves
	z.requests = z.received
	z.starting = func() { z.asked.Store(0) }
}

func (z *ZooKeeper) config(opts ZooKeeperOptions) []string {
	tick := opts.Tick
	if tick == 0 {
		tick = 500 * time.Millisecond
	}
	conf := map[string]string{
		"tickTime":               strconv.FormatInt(tick.Milliseconds(), 10),
		"minSessionTimeout":      strconv.FormatInt(2*tick.Milliseconds(), 10),
		"maxSessionTimeout":      strconv.FormatInt(max(time.Minute, 2*tick).Milliseconds(), 10),
		"dataDir":                z.data,
		"clientPort":             z.ports[0].String(),
		"clientPortAddress":      host,
		"admin.enableServer":     "false",
		"4lw.commands.whitelist": "*",
		"maxClientCnxns":         "0",
	}
	if !opts.Sync {
		conf["forceSync"] = "no"
	}
	maps.Copy(conf, opts.Config)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(conf)) {
		lines = append(lines, name+"="+conf[name])
	}
	return lines
}

func jvmArgs(opts ZooKeeperOptions) []string {
	args := []string{
		"-Xms32m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData",
		"-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
	}
	if !opts.FullJIT {
		args = append(args, "-XX:TieredStopAtLevel=1", "-Xshare:auto")
	}
	for _, name := range slices.Sorted(maps.Keys(opts.Properties)) {
		args = append(args, "-D"+name+"="+opts.Properties[name])
	}
	return args
}

// zooKeeperClasses returns the class path of the server.
func zooKeeperClasses() (string, error) {
	if dir := os.Getenv(EnvZooKeeperJars); dir != "" {
		return filepath.Join(dir, "*"), nil
	}
	var jars []string
	for _, name := range []string{"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple", "netty-all", "snappy-java", "metrics-core"} {
		jar := filepath.Join("/usr/share/java", name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return "", missing("ZooKeeper ("+jar+")", EnvZooKeeper)
		}
		jars = append(jars, jar)
	}
	return strings.Join(jars, string(os.PathListSeparator)), nil
}

// Word sends one of ZooKeeper's four-letter words ("srvr", "mntr", "cons", "wchs", ...)
// and returns the answer.
func (z *ZooKeeper) Word(ctx context.Context, word string) (string, error) {
	conn, err := dial(ctx, z.addr, nil)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	z.asked.Add(1)
	return string(b), nil
}

// Status returns the fields that "srvr" answers, such as "Mode", "Received" and "Zxid".
// It is an error if the server does not serve, for want of a quorum for example.
func (z *ZooKeeper) Status(ctx context.Context) (map[string]string, error) {
	text, err := z.Word(ctx, "srvr")
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	if fields["Mode"] == "" {
		return nil, fmt.Errorf("zookeeper at %s: %s", z.addr, strings.TrimSpace(text))
	}
	return fields, nil
}

func (z *ZooKeeper) serves(ctx context.Context) error {
	_, err := z.Status(ctx)
	return err
}

// leads reports whether the server says that it is the leader, or the only one.
func (z *ZooKeeper) leads(ctx context.Context) (bool, error) {
	fields, err := z.Status(ctx)
	return fields["Mode"] == "leader" || fields["Mode"] == "standalone", err
}

func (z *ZooKeeper) received(ctx context.Context) (int64, error) {
	// The question itself is among the packets received when it is answered.
	asked := z.asked.Load() + 1
	fields, err := z.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("count requests of zookeeper at %s: %w", z.addr, err)
	}
	n, err := strconv.ParseInt(fields["Received"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count requests of zookeeper at %s: %w", z.addr, err)
	}
	if z.given {
		return n, nil // who else asked is not known
	}
	return n - asked, nil
}
