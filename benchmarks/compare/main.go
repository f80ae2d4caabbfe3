// Command compare measures this project's backends beside other lock libraries on real
// servers, which it starts by itself, and says what each costs and where it breaks.
//
//	go -C benchmarks run ./compare              about ten minutes
//	go -C benchmarks run ./compare -full        everything, about fifty minutes
//	go -C benchmarks run ./compare -backends redis -experiments alone,contended -quick
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed80cd6120/locker/benchmarks/catalog"
	"github.com/seed80cd6120/locker/benchmarks/child"
	"github.com/seed80cd6120/locker/benchmarks/experiment"
	"github.com/seed80cd6120/locker/benchmarks/machine"
	"github.com/seed80cd6120/locker/benchmarks/report"
	"github.com/seed80cd6120/locker/internal/servers"
)

func main() {
	experiment.RegisterRoles(catalog.Find)
	child.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // who presses Ctrl-C a second time does not want to wait
	err := run(ctx, os.Args[1:])
	stop()
	_ = servers.StopAll() // what could not be stopped by itself ends with this process
	switch {
	case errors.Is(err, context.Canceled): // and the report says so
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args, os.Stdout)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.From != "" {
		return o.again(os.Stdout)
	}
	plan, leftOut, err := o.plan()
	if err != nil {
		return err
	}
	looked := machine.Look() // before our own work is part of its load
	p := newProgress(os.Stderr)
	plan.Progress = p.tell
	outcome, err := plan.Run(ctx)
	p.end()
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		leftOut = append(leftOut, "interrupted: what had not been measured by then")
	}
	in := report.Input{Command: o.command(), Machine: looked, Plan: plan, Outcome: outcome, LeftOut: leftOut}
	return errors.Join(err, o.report(in, os.Stdout))
}
