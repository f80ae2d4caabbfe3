package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/seed80cd6120/locker/benchmarks/catalog"
	"github.com/seed80cd6120/locker/benchmarks/contender"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/site"
	"github.com/seed80cd6120/locker/internal/servers"
)

// options are the flags. Each may be given with one dash or with two.
type options struct {
	Full        bool     `help:"Measure everything thoroughly; about fifty minutes instead of ten." xor:"depth"`
	Quick       bool     `help:"Measure as little as is still worth something; for tuning a backend." xor:"depth"`
	Smoke       bool     `help:"Measure only to see that everything works." hidden:"" xor:"depth"`
	Backends    string   `help:"Backends to measure: names separated by commas, all or none." default:"all" placeholder:"LIST"`
	Rivals      string   `help:"Other libraries to measure: names separated by commas, all or none. With some backends only, those on the same servers." default:"all" placeholder:"LIST"`
	Experiments string   `help:"Experiments to run: names separated by commas, or all; those that -list shows with a star only if named." default:"all" placeholder:"LIST"`
	Repeat      int      `help:"Repetitions of every experiment, instead of its own number." placeholder:"N"`
	Redis       []string `env:"LOCKER_REDIS" help:"Addresses of Redis servers that run already (one, or five for RedLock); locks are taken on them, nothing else is touched." placeholder:"HOST:PORT"`
	ZooKeeper   []string `name:"zookeeper" env:"LOCKER_ZOOKEEPER" help:"Addresses of ZooKeeper servers that run already." placeholder:"HOST:PORT"`
	Etcd        []string `env:"LOCKER_ETCD" help:"Addresses of etcd servers that run already." placeholder:"HOST:PORT"`
	Out         string   `help:"Folder for the reports (Markdown, JSON, HTML, plots); none writes no files." default:"results" placeholder:"DIR"`
	From        string   `help:"Measure nothing: make the reports again from the JSON file of an earlier run." placeholder:"FILE"`
	Page        string   `help:"Also put the short table and its plot between the marks in a Markdown file, such as docs/comparison.md of the project." placeholder:"FILE"`
	List        bool     `help:"Say what there is to measure, and end."`

	args []string
}

var errHelp = errors.New("help was asked for")

// parse reads the command line. With -help or -list it answers on w and returns errHelp.
func parse(args []string, w io.Writer) (*options, error) {
	o := &options{args: args}
	ended := false
	parser, err := kong.New(o,
		kong.Name("compare"),
		kong.Description("Measures lock backends and libraries on real servers, which it starts by itself."),
		kong.Writers(w, w),
		kong.Exit(func(int) { ended = true }),
	)
	if err != nil {
		return nil, err
	}
	_, err = parser.Parse(twoDashes(args))
	if ended {
		return nil, errHelp
	}
	if err != nil {
		return nil, err
	}
	if o.List {
		list(w)
		return nil, errHelp
	}
	return o, nil
}

// twoDashes lets -full be written for --full, as other Go programs have it.
func twoDashes(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		if len(a) > 2 && a[0] == '-' && a[1] != '-' {
			out[i] = "-" + a
		}
	}
	return out
}

func list(w io.Writer) {
	fmt.Fprintln(w, "backends:   ", strings.Join(catalog.Families(contender.Ours), " "))
	fmt.Fprintln(w, "rivals:     ", strings.Join(catalog.Families(contender.Rival), " "))
	fmt.Fprintln(w, "experiments:", experimentNames("*", every))
	fmt.Fprintln(w, "\nA backend or rival can also be named with its servers:")
	for _, c := range catalog.All() {
		if c.Role == contender.Ours || c.Role == contender.Rival {
			fmt.Fprintf(w, "  %-24s %s\n", c.Name, c.Note)
		}
	}
}

// experimentNames are the names of the experiments that are wanted, with a mark behind those that are run only if they are named.
func experimentNames(mark string, want func(experiment.Experiment) bool) string {
	var names []string
	for _, e := range experiment.All() {
		switch {
		case !want(e):
		case e.OnDemand:
			names = append(names, e.Name+mark)
		default:
			names = append(names, e.Name)
		}
	}
	return strings.Join(names, " ")
}

func every(experiment.Experiment) bool { return true }

// command is the command line.
func (o *options) command() string {
	return strings.Join(append([]string{"go -C benchmarks run ./compare"}, o.args...), " ")
}

func (o *options) depth() experiment.Depth {
	switch {
	case o.Full:
		return experiment.Full
	case o.Smoke:
		return experiment.Smoke
	case o.Quick:
		return experiment.Quick
	}
	return experiment.Short
}

// plan turns the flags into what to run, and says what that leaves out.
func (o *options) plan() (experiment.Plan, []string, error) {
	p := experiment.Plan{Depth: o.depth(), Repeat: o.Repeat}
	if o.Repeat < 0 {
		return p, nil, fmt.Errorf("-repeat: %d is less than zero", o.Repeat)
	}
	var err error
	if p.Contenders, err = catalog.Choose(catalog.All(), o.Backends, o.Rivals); err != nil {
		return p, nil, err
	}
	if p.Experiments, err = chooseExperiments(o.Experiments); err != nil {
		return p, nil, err
	}
	p.Given = site.Given{contender.Redis: o.Redis, contender.ZooKeeper: o.ZooKeeper, contender.Etcd: o.Etcd}
	for env, addrs := range map[string][]string{servers.EnvRedis: o.Redis, servers.EnvZooKeeper: o.ZooKeeper, servers.EnvEtcd: o.Etcd} {
		if err := os.Setenv(env, strings.Join(addrs, ",")); err != nil { // for those who start servers
			return p, nil, err
		}
	}
	var leftOut []string
	if p.Depth != experiment.Full {
		leftOut = append(leftOut, fmt.Sprintf("the %s form measures fewer cases, shorter and less often: -full measures all", p.Depth))
		if o.Experiments == "" || o.Experiments == "all" {
			leftOut = append(leftOut, "experiments that are run only if -experiments names them: "+
				experimentNames("", func(e experiment.Experiment) bool { return e.OnDemand }))
		}
	}
	return p, leftOut, nil
}

// chooseExperiments picks those of a list; all are those that need not be named.
func chooseExperiments(list string) ([]experiment.Experiment, error) {
	all := experiment.All()
	if list == "" || list == "all" {
		return slices.DeleteFunc(all, func(e experiment.Experiment) bool { return e.OnDemand }), nil
	}
	var chosen []experiment.Experiment
	for w := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(e experiment.Experiment) bool { return e.Name == w })
		if i < 0 {
			return nil, fmt.Errorf("-experiments: %q is none of %s", w, experimentNames("", every))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
