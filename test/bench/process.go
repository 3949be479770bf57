// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// These read Linux's /proc, proc(5). Elsewhere there is no such thing, and the bench tells of no CPU and no memory.

// tick is the unit of the CPU times in /proc: USER_HZ is 100 wherever Go runs.
const tick = time.Second / 100

var hasProc = func() bool { _, err := os.Stat("/proc/self/stat"); return err == nil }()

// cpuOf is the CPU time, user and system, that a process has used.
func cpuOf(pid int) (time.Duration, error) {
	if !hasProc {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseProcessCPU(string(text))
}

func parseProcessCPU(stat string) (time.Duration, error) {
	// The second field is the command's name, in parentheses, which may hold anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, errors.New("/proc/PID/stat: too few fields")
	}
	return sumTicks(fields[utime], fields[stime])
}

// cpuOfAll is the CPU time that was used by all processes of the machine.
func cpuOfAll() (time.Duration, error) {
	if !hasProc {
		return 0, nil
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseMachineCPU(string(text))
}

func parseMachineCPU(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, errors.New("/proc/stat: unknown format")
	}
	// user, nice, system, idle, iowait, irq, softirq
	return sumTicks(fields[1], fields[2], fields[3], fields[6], fields[7])
}

func sumTicks(fields ...string) (time.Duration, error) {
	var sum time.Duration
	for _, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}

// resetPeak makes peakOf tell of what comes from now on.
func resetPeak(pid int) error {
	if !hasProc {
		return nil
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peakOf is the most memory, in bytes, that a process has had resident.
func peakOf(pid int) (int64, error) {
	if !hasProc {
		return 0, nil
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parsePeak(string(text))
}

func parsePeak(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/PID/status: no VmHWM")
}

// loadAverage is what uptime says.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return fields[0]
}

// meter measures CPU time from one moment to another.
type meter struct {
	pids   []int // the contestant, then API server and etcd
	before []time.Duration
	all    time.Duration
}

// usage is CPU time: of the contestant, of the control plane, of the bench, and of what else runs on the machine.
type usage struct{ contestant, controlPlane, bench, others time.Duration }

func newMeter(contestant int, controlPlane ...int) (*meter, error) {
	m := &meter{pids: append([]int{contestant, os.Getpid()}, controlPlane...)}
	var err error
	m.before, m.all, err = m.read()
	return m, err
}

func (m *meter) read() ([]time.Duration, time.Duration, error) {
	out := make([]time.Duration, len(m.pids))
	for i, pid := range m.pids {
		var err error
		if out[i], err = cpuOf(pid); err != nil {
			return nil, 0, err
		}
	}
	all, err := cpuOfAll()
	return out, all, err
}

func (m *meter) usage() (usage, error) {
	now, all, err := m.read()
	if err != nil {
		return usage{}, err
	}
	u := usage{others: all - m.all}
	for i := range now {
		used := now[i] - m.before[i]
		u.others -= used
		switch i {
		case 0:
			u.contestant = used
		case 1:
			u.bench = used
		default:
			u.controlPlane += used
		}
	}
	u.others = max(0, u.others)
	return u, nil
}
