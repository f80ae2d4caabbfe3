//go:build unix

package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/seed80cd6120/locker/internal/cli/finding"
)

// memberTimeout bounds what one member is asked, so that the others are heard.
const memberTimeout = 3 * time.Second

// defaultQuota is the space of a member whose operator has not set it: clients before 3.6 cannot read it.
const defaultQuota = 2 << 30

// checkEtcd examines the members of an etcd cluster.
func checkEtcd(ctx context.Context, rawURL string) ([]finding.Finding, error) {
	s, err := read(rawURL, "2379", func(scheme string) bool { return scheme == "etcds" })
	if err != nil {
		return nil, err
	}
	scheme := "http://"
	if s.TLS != nil {
		scheme = "https://"
	}
	endpoints := make([]string, len(s.Addresses))
	for n, address := range s.Addresses {
		endpoints[n] = scheme + address
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: endpoints, Username: s.User, Password: s.Password, TLS: s.TLS, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var all []finding.Finding
	var failed error
	for _, endpoint := range endpoints {
		l := &finding.List{Server: strings.TrimPrefix(endpoint, scheme)}
		if err := examineMember(ctx, client, endpoint, l); err != nil {
			failed = err
			l.Warn(fmt.Sprintf("no answer: %v", err), "one member fewer may fail", "start the member or mend the way to it")
		}
		all = append(all, l.Findings...)
	}
	l := &finding.List{Server: "cluster"}
	if err := examineCluster(ctx, client, l); err != nil {
		if failed == nil {
			failed = err
		}
		return nil, failed
	}
	return append(all, l.Findings...), nil
}

// examineMember asks one member.
func examineMember(ctx context.Context, client *clientv3.Client, endpoint string, l *finding.List) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	status, err := client.Status(ctx, endpoint)
	if err != nil {
		return err
	}
	memberVersion(l, status.Version)
	used := fmt.Sprintf("%d of %d MiB are used, unless its quota is another", status.DbSize>>20, int64(defaultQuota)>>20)
	if status.DbSize > defaultQuota/10*9 {
		l.Warn(used, "no lock can be taken when there is no space", "compact and defragment, or raise --quota-backend-bytes")
	} else {
		l.OK(used)
	}
	if status.Leader == 0 {
		l.Broken("it knows no leader", "no lock can be taken through it", "see whether a majority of the members runs")
	}
	return nil
}

// memberVersion judges the version of a member.
func memberVersion(l *finding.List, version string) {
	l.Version(version, "3.4")
	if finding.Older(version, "3.4.20") || !finding.Older(version, "3.5.0") && finding.Older(version, "3.5.7") {
		l.Warn("it is older than 3.4.20 or 3.5.7", "it refuses releases while it has no space", "upgrade the server")
	}
}

// examineCluster asks how many members there are, and for alarms.
func examineCluster(ctx context.Context, client *clientv3.Client, l *finding.List) error {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	members, err := client.MemberList(ctx)
	if err != nil {
		return err
	}
	voters := 0
	for _, m := range members.Members {
		if !m.IsLearner {
			voters++
		}
	}
	switch {
	case voters < 3:
		l.Warn(fmt.Sprintf("%d members", voters), "none may fail: then nobody gets a lock and holders lose theirs", "run three or five")
	case voters%2 == 0:
		l.Warn(fmt.Sprintf("%d members", voters), fmt.Sprintf("no more may fail than of %d", voters-1), "run an odd number")
	default:
		l.OK(fmt.Sprintf("%d members", voters))
	}
	alarms, err := client.AlarmList(ctx)
	if err != nil {
		l.Unknown(fmt.Sprintf("alarms: %v", err), "ask with a user who may: etcdctl alarm list")
		return nil
	}
	for _, a := range alarms.Alarms {
		l.Broken(fmt.Sprintf("alarm %v of member %x", a.Alarm, a.MemberID), "no lock can be taken", "make room, then etcdctl alarm disarm")
	}
	return nil
}
