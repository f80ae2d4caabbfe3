//go:build !linux

package faults

import (
	"os/exec"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

// A child ends when its standard input does.
func startOnThread(cmd *exec.Cmd) error { return cmd.Start() }

func prepare() {}
