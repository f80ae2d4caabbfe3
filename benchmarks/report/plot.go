package report

import "github.com/seed80cd6120/locker/benchmarks/experiment"

func plots(in Input, e *experiment.Experiment) []Plot { return nil }
