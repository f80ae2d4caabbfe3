//go:build unix

package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"

	"github.com/seed80cd6120/locker/internal/cli/finding"
)

// checkZooKeeper examines each of the servers, by its commands of four letters.
func checkZooKeeper(ctx context.Context, rawURL string) ([]finding.Finding, error) {
	s, err := read(rawURL, "2181", func(scheme string) bool { return scheme == "zookeepers" })
	if err != nil {
		return nil, err
	}
	all, away, first := examineEach(ctx, "server", s.Addresses, func(ctx context.Context, l finding.List) ([]finding.Finding, error) {
		server := zooKeeperList{l}
		err := server.examine(ctx, s.TLS)
		return server.Findings, err
	})
	if away == len(s.Addresses) {
		return all, first
	}
	return all, nil
}

// zooKeeperList has the findings about one server of ZooKeeper.
type zooKeeperList struct{ finding.List }

var zooKeeperVersion = regexp.MustCompile(`version: (\d+\.\d+\.\d+)`)

func (l *zooKeeperList) examine(ctx context.Context, config *tls.Config) error {
	answer, err := l.ask(ctx, config, "srvr")
	if err != nil {
		return err
	}
	version := zooKeeperVersion.FindStringSubmatch(answer)
	if version == nil {
		l.Unknown("it does not answer srvr", "put srvr and conf into 4lw.commands.whitelist, and see that it is of version 3.5.3 or later")
		return nil
	}
	l.server(version[1], strings.Contains(answer, "Mode: standalone"))
	if answer, err = l.ask(ctx, config, "conf"); err != nil {
		return err
	}
	l.configuration(fields(answer, "="))
	return nil
}

// server judges the version of a server, and that it is alone or not.
func (l *zooKeeperList) server(version string, alone bool) {
	if l.Version(version, "3.5.3"); !alone && finding.Older(version, "3.8.4") {
		l.Warn("it is older than 3.8.4", "killed just after it has joined it forgets what it has confirmed, and a lock may be gone with that",
			"upgrade the server")
	}
	if alone {
		l.Warn("it is alone", "no server may fail: then nobody gets a lock and holders lose theirs", "run an ensemble of three or five")
	} else {
		l.OK("it is one of an ensemble")
	}
}

// configuration judges what conf has answered.
func (l *zooKeeperList) configuration(conf map[string]string) {
	if conf["minSessionTimeout"] == "" {
		l.Unknown("it does not answer conf", "put conf into 4lw.commands.whitelist, and see that maxClientCnxns is enough")
		return
	}
	l.OK(fmt.Sprintf("a TTL of %s to %s ms is as asked for", conf["minSessionTimeout"], conf["maxSessionTimeout"]))
	// 0 is no limit.
	if most, err := strconv.Atoi(conf["maxClientCnxns"]); err == nil && most > 0 && most < 100 {
		l.Warn("maxClientCnxns "+conf["maxClientCnxns"], "so many programs of one machine have a session; the next gets none",
			"raise maxClientCnxns to the number of programs that lock, or more")
	} else {
		l.OK("maxClientCnxns " + conf["maxClientCnxns"])
	}
	l.Unknown("jute.maxbuffer is not told", "where thousands wait for one name it must be above 200 bytes for each; the default is 1 MB")
}

// ask sends a command of four letters and returns the answer.
func (l *zooKeeperList) ask(ctx context.Context, config *tls.Config, command string) (string, error) {
	var conn net.Conn
	var err error
	if config != nil {
		conn, err = (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", l.Server)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.Server)
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(io.LimitReader(conn, 1<<16))
	return string(answer), err
}
