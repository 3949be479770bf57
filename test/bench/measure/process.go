// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"fmt"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// proc is Linux's /proc. Elsewhere all values are 0.
var proc, errProc = procfs.NewDefaultFS()

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// CPU returns the CPU time, user and system, that all threads of a process have used. /proc has it in ticks of 10 ms
// only, so this reads the clock of the process, whose number is as clock_getcpuclockid(3) makes it.
func CPU(pid int) (time.Duration, error) {
	if errProc != nil {
		return 0, nil
	}
	if pid <= 0 { // it has ended, and the clock would be that of this process
		return 0, fmt.Errorf("there is no process %d", pid)
	}
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &used); err != nil {
		return 0, fmt.Errorf("reading the CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(used.Nano()), nil
}

// Peak returns the most resident memory of a process, in bytes.
func Peak(pid int) (uint64, error) {
	if errProc != nil {
		return 0, nil
	}
	p, err := proc.Proc(pid)
	if err != nil {
		return 0, err
	}
	status, err := p.NewStatus()
	return status.VmHWM, err
}

// machine returns the CPU time that all processes have used, and what the host has given to other machines.
func machine() (used, stolen time.Duration, err error) {
	if errProc != nil {
		return 0, 0, nil
	}
	stat, err := proc.Stat()
	t := stat.CPUTotal
	return seconds(t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ), seconds(t.Steal), err
}

// Meter measures CPU time from one moment to another.
type Meter struct {
	pids   []int // the contestant, this process, then API server and etcd
	before []time.Duration
}

// Usage is the CPU time of the contestant, the control plane, the bench, and everything else on the machine.
type Usage struct{ Contestant, ControlPlane, Bench, Others time.Duration }

// NewMeter returns a Meter that measures from now on, as Peak does of the contestant.
func NewMeter(contestant int, controlPlane ...int) (m *Meter, err error) {
	m = &Meter{pids: append([]int{contestant, os.Getpid()}, controlPlane...)}
	if errProc == nil {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", contestant), []byte("5"), 0); err != nil {
			return nil, err
		}
	}
	m.before, err = m.read()
	return m, err
}

// read returns the CPU time of each process, and at last that of all processes of the machine.
func (m *Meter) read() ([]time.Duration, error) {
	out := make([]time.Duration, 0, len(m.pids)+1)
	for _, pid := range m.pids {
		used, err := CPU(pid)
		if err != nil {
			return nil, err
		}
		out = append(out, used)
	}
	all, _, err := machine()
	return append(out, all), err
}

// Usage returns the CPU time since NewMeter.
func (m *Meter) Usage() (Usage, error) {
	used, err := m.read()
	if err != nil {
		return Usage{}, err
	}
	for i := range used {
		used[i] -= m.before[i]
	}
	n := len(m.pids)
	u := Usage{Contestant: used[0], Bench: used[1]}
	for _, d := range used[2:n] {
		u.ControlPlane += d
	}
	u.Others = max(0, used[n]-u.Contestant-u.Bench-u.ControlPlane)
	return u, nil
}
