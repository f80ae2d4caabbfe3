//go:build unix

package doctor

import (
	"testing"

	"github.com/seed80cd6120/locker/internal/cli/finding"
)

// Versions of servers of which the documentation says that they break a promise are named.
func TestVersions(t *testing.T) {
	for version, want := range map[string]finding.Severity{"3.5.2": finding.Broken, "3.8.0": finding.Warning, "3.8.4": finding.OK, "3.9.3": finding.OK} {
		l := zooKeeperList{}
		if l.server(version, false); finding.Worst(l.Findings) != want {
			t.Errorf("ZooKeeper %s: %v, want %s", version, l.Findings, want)
		}
	}
	for version, want := range map[string]finding.Severity{
		"3.3.9": finding.Broken, "3.4.19": finding.Warning, "3.4.20": finding.OK, "3.5.0": finding.Warning, "3.5.6": finding.Warning,
		"3.5.7": finding.OK, "3.6.1": finding.OK,
	} {
		l := finding.List{}
		if memberVersion(&l, version); finding.Worst(l.Findings) != want {
			t.Errorf("etcd %s: %v, want %s", version, l.Findings, want)
		}
	}
}
