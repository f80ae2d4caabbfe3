package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("LOCKER_REDIS", "other:1")
	t.Setenv("LOCKER_ZOOKEEPER", "c:3")
	o, err := parse([]string{"-full", "-backends", "redis,etcd", "--experiments=alone,shop", "-redis", "a:1,b:2", "-repeat", "3"}, &bytes.Buffer{})
	must(t, err)
	p, _, err := o.plan()
	must(t, err)
	if p.Depth != experiment.Full || p.Repeat != 3 || len(p.Experiments) != 2 || p.Experiments[1].Name != "shop" {
		t.Errorf("%+v", p)
	}
	if got := p.Given[contender.Redis]; len(got) != 2 || got[1] != "b:2" {
		t.Errorf("addresses of the flag: %v", got)
	}
	if got := p.Given[contender.ZooKeeper]; len(got) != 1 || got[0] != "c:3" {
		t.Errorf("addresses of the environment: %v", got)
	}
	if !strings.HasSuffix(o.command(), "run ./compare -full -backends redis,etcd --experiments=alone,shop -redis a:1,b:2 -repeat 3") {
		t.Error(o.command())
	}
}

func TestShortFormSaysWhatItLeavesOut(t *testing.T) {
	o, err := parse(nil, &bytes.Buffer{})
	must(t, err)
	p, leftOut, err := o.plan()
	must(t, err)
	if p.Depth != experiment.Short || len(p.Experiments) == 0 {
		t.Errorf("%v, %d experiments", p.Depth, len(p.Experiments))
	}
	said := strings.Join(leftOut, "\n")
	for _, e := range experiment.All() {
		runs := slices.ContainsFunc(p.Experiments, func(x experiment.Experiment) bool { return x.Name == e.Name })
		if runs == e.OnDemand || e.OnDemand && !strings.Contains(said, e.Name) {
			t.Errorf("%s: on demand %v, runs %v; left out is %s", e.Name, e.OnDemand, runs, said)
		}
	}
	if !strings.Contains(said, "-full") {
		t.Errorf("%v", leftOut)
	}
}

func TestWrongCommandLines(t *testing.T) {
	for _, args := range [][]string{
		{"-nonsense"},
		{"-full", "-quick"},
		{"-backends", "oracle"},
		{"-rivals", "redis"},
		{"-experiments", "alone,party"},
		{"-backends", "none", "-rivals", "none"},
		{"-repeat", "-1"},
		{"-repeat", "many"},
		{"stray"},
	} {
		o, err := parse(args, &bytes.Buffer{})
		if err == nil {
			_, _, err = o.plan()
		}
		if err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

func TestHelpAndList(t *testing.T) {
	for flag, want := range map[string]string{"-help": "--experiments", "-list": "rueidislock"} {
		var b bytes.Buffer
		if _, err := parse([]string{flag}, &b); err != errHelp {
			t.Errorf("%s: %v", flag, err)
		}
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s does not say %q:\n%s", flag, want, b.String())
		}
	}
}
