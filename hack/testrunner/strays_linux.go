// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// prSetChildSubreaper is PR_SET_CHILD_SUBREAPER of prctl(2).
const prSetChildSubreaper = 36

// adoptOrphans makes processes whose parents died this process's children. Envtest and the local cluster start their
// servers in process groups of their own, so that this is the only way to find those of a test that crashed.
func adoptOrphans() {
	// A kernel that refuses costs the search, not the tests.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
}

// endStrays ends the processes that a finished go test left behind, and names them. Those that are about to end, such
// as the go command's own helpers, get the patience to do so. No command may be running when it is called.
func endStrays(patience time.Duration) []string {
	var names []string
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		strays := children()
		if len(strays) == 0 {
			return names
		}
		if time.Now().Before(deadline) {
			continue
		}
		// The children of these are adopted in turn and found in the next round.
		for _, s := range strays {
			names = append(names, s.String())
			_ = syscall.Kill(s.pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(s.pid, nil, 0, nil)
		}
	}
}

type process struct {
	pid     int
	command string
}

func (p process) String() string { return fmt.Sprintf("%s (pid %d)", p.command, p.pid) }

// maxCommand is how much of a command line is shown: enough to find who starts it.
const maxCommand = 100

// commandLine is the beginning of the process's command line.
func commandLine(pid int) string {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	line := strings.TrimSpace(strings.ReplaceAll(string(content), "\x00", " "))
	if len(line) > maxCommand {
		line = line[:maxCommand] + "..."
	}
	return line
}

// children lists the living children of this process, by proc(5), and reaps the dead.
func children() []process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var list []process
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		// pid (comm) state ppid: comm may hold anything, parentheses too.
		open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
		if open < 0 || end < open {
			continue
		}
		fields := bytes.Fields(content[end+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, _ := strconv.Atoi(string(bytes.TrimSpace(content[:open])))
		if string(fields[0]) == "Z" {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			continue
		}
		list = append(list, process{pid: pid, command: commandLine(pid)})
	}
	slices.SortFunc(list, func(a, b process) int { return a.pid - b.pid })
	return list
}
