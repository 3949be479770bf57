// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Main runs a bench until it ends or is interrupted, and exits.
func Main(bench func(context.Context) error) {
	log.SetLogger(klog.Background())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// Run is one run of a bench, as it is kept in docs/bench. The page's tables are made from these files.
type Run struct {
	Commit, Machine string
	Nodes, Rules    int
	// Rounds are complete. Fewer than were planned are those of a run that was ended early.
	Rounds  int
	Planned int `json:",omitempty"`
	// Complaints are the checks that failed. The page takes no run with any.
	Complaints []string `json:",omitempty"`
	// GuardedBy is the run that the bounds LeanMost of the lines are made of, if any.
	GuardedBy string `json:",omitempty"`
	// Evidence is what the rules go by. It is empty for a run against a synthetic server, Outage for one of an outage, and
	// Admission or Agent for their benches.
	Evidence string `json:",omitempty"`
	// Stolen is the CPU time in seconds that the machine's host gave to others.
	Stolen float64
	Lines  []Line `json:",omitempty"`
	// Requests are of the bench of admission, Rows of the bench of the node agent, and Targets of both.
	Requests []Request  `json:",omitempty"`
	Rows     [][]string `json:",omitempty"`
	Targets  []Target   `json:",omitempty"`

	file   string
	stolen time.Duration // before
}

// The kinds of evidence that rules can go by, and the Evidence of runs in which it makes no difference.
const (
	ByConditions = "conditions"
	ByPods       = "pods"
	Admission    = "admission"
	Agent        = "agent"
	Outage       = "outage"
)

// Request is a kind of request in a setup of the bench of admission.
type Request struct {
	Kind, Setup string
	// CPU is the CPU time of the API server for each request, the median of all rounds. It and the latencies, which are
	// those of all requests, are in milliseconds.
	CPU, P50, P99 float64
	// Ratio compares the CPU time with that of the first setup, round by round.
	Ratio Ratio
}

// Target is a goal of a bench, and whether it is reached.
type Target struct {
	Title   string
	Reached bool
	// Undecided says that the rounds, or the machine, do not decide.
	Undecided bool
	// Counted says that the target does not depend on how busy the machine is: the bench fails if it is missed.
	Counted bool
	Detail  string
}

// Line is a contestant in a phase: the medians of all rounds.
type Line struct {
	// Phase begins with the name of the operator, or of a floor.
	Phase string
	// Wall, P50, P99 and the CPUs are in seconds.
	Wall, P50, P99                                float64
	CPU, ControlPlaneCPU, OthersCPU               float64
	PeakMiB                                       float64
	Patches, Refused, Events, StatusWrites, Other float64
	// Until counts the requests by kind until the last taint has changed. All other counts, and the CPUs, are those until
	// all is quiet.
	Until map[string]float64 `json:",omitempty"`
	// Each has the values of single rounds, which the ratios are made of. Older runs have none.
	Each Series `json:",omitzero"`
	// Equal and Lean are the operator's ratios to the two floors.
	Equal, Lean Ratios `json:",omitzero"`
	// LeanMost is what Guard allows the ratios to the lean floor.
	LeanMost Guarded `json:",omitzero"`
}

// Series are values of single rounds, in seconds.
type Series struct{ Wall, P99, CPU, ControlPlaneCPU, OthersCPU []float64 }

// Over compares the operator with a floor, round by round.
func (s Series) Over(floor Series) Ratios {
	return Ratios{Wall: RatioOf(s.Wall, floor.Wall), P99: RatioOf(s.P99, floor.P99), CPU: RatioOf(s.CPU, floor.CPU),
		ControlPlane: RatioOf(s.ControlPlaneCPU, floor.ControlPlaneCPU)}
}

// Ratios compare the operator with a floor.
type Ratios struct{ Wall, P99, CPU, ControlPlane Ratio }

// Guarded are bounds of ratios, or zero if there are none.
type Guarded struct{ Wall, P99 float64 }

// NewRun returns a run that begins now, with the flags that all benches have. Call it before anything is built: the
// checkout may move on while a bench runs.
func NewRun(ctx context.Context, evidence string, rounds int) *Run {
	_, stolen, _ := machine()
	r := &Run{Commit: commit(ctx), Evidence: evidence, stolen: stolen, Machine: fmt.Sprintf("%s/%s, %d CPUs, %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())}
	flag.IntVar(&r.Rounds, "rounds", rounds, "`number` of rounds; the tables have their medians")
	flag.StringVar(&r.file, "json", "", "`file` for the numbers of the tables, as JSON, for docs/bench")
	return r
}

// ParseFlags parses the flags of a bench, which takes no other arguments. All numbers must be at least 1.
func ParseFlags() (err error) {
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	flag.VisitAll(func(f *flag.Flag) {
		if g, ok := f.Value.(flag.Getter); ok {
			if n, ok := g.Get().(int); ok && n < 1 {
				err = fmt.Errorf("--%s: must be at least 1, not %d", f.Name, n)
			}
		}
	})
	return err
}

// Finish prints and writes the run. It returns an error about a check that failed, a regression, or a counted target
// that is missed.
func (r *Run) Finish() error {
	if err := r.Write(); err != nil {
		return err
	}
	table, err := r.Table()
	fmt.Print("\n" + table)
	return errors.Join(err, r.missed())
}

// Write writes the run to the file that the flag --json names, if it is set.
func (r *Run) Write() error {
	_, stolen, err := machine()
	r.Planned = max(r.Planned, r.Rounds)
	r.Stolen = (stolen - r.stolen).Seconds()
	if err != nil || r.file == "" {
		return err
	}
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(r.file, append(raw, '\n'), 0o600)
}

// Read reads runs, and sorts them by their sizes.
func Read(files []string) ([]*Run, error) {
	var runs []*Run
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		run := &Run{}
		if err := json.Unmarshal(raw, run); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		runs = append(runs, run)
	}
	slices.SortStableFunc(runs, func(a, b *Run) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Rules, b.Rules), cmp.Compare(a.Evidence, b.Evidence))
	})
	return runs, nil
}

// dirty ends a commit with changes that are not committed.
const dirty = "-dirty"

// commit returns the commit of the checkout, and whether it has changes or new files. Those of the documentation do not
// count: the numbers of the run before are there.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return dirty
	}
	commit := strings.TrimSpace(string(out))
	out, err = exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":/", ":(top,exclude)docs").Output()
	if err != nil || len(out) > 0 {
		commit += dirty
	}
	return commit
}

// Committed reports whether the run is of a commit that others can check out.
func (r *Run) Committed() bool { return r.Commit != "" && !strings.HasSuffix(r.Commit, dirty) }

// lines returns the lines of phases, in their order.
func (r *Run) lines(phases ...string) ([]*Line, error) {
	out := make([]*Line, len(phases))
	for p, phase := range phases {
		i := slices.IndexFunc(r.Lines, func(l Line) bool { return l.Phase == phase })
		if i < 0 {
			return nil, fmt.Errorf("run of %d nodes and %d rules at commit %s: no phase %q", r.Nodes, r.Rules, r.Commit, phase)
		}
		out[p] = &r.Lines[i]
	}
	return out, nil
}

// Guard bounds the ratios to the lean floor by those of the first run of the same size and evidence that had enough
// rounds, plus a tenth. A greater ratio is a regression. Each later run passes these bounds on to the next: if each set
// bounds of its own, many small regressions would pass.
func (r *Run) Guard(earlier []*Run) {
	for _, e := range earlier {
		first := e.GuardedBy == ""
		if e.Nodes != r.Nodes || e.Rules != r.Rules || e.Evidence != r.Evidence || first && outside(e.Rounds) == 0 {
			continue
		}
		r.GuardedBy = cmp.Or(e.GuardedBy, fmt.Sprintf("commit %s (%d rounds)", e.Commit, e.Rounds))
		for i := range r.Lines {
			if before, err := e.lines(r.Lines[i].Phase); err == nil {
				r.Lines[i].LeanMost = before[0].LeanMost
				if lean := before[0].Lean; first {
					r.Lines[i].LeanMost = Guarded{Wall: lean.Wall.Median * 1.1, P99: lean.P99.Median * 1.1}
				}
			}
		}
	}
}

// missed returns an error about a check that failed, a regression, or a counted target that is missed.
func (r *Run) missed() error {
	if len(r.Complaints) > 0 {
		return errors.New(strings.Join(r.Complaints, "\n"))
	}
	for i := range r.Lines {
		if l := &r.Lines[i]; l.regressed() {
			return fmt.Errorf("%s: a regression: wall time %s, p99 %s x the lean floor", l.Phase,
				l.Lean.Wall, l.Lean.P99)
		}
	}
	for i := range r.Targets {
		if t := &r.Targets[i]; t.Counted && !t.Reached {
			return fmt.Errorf("%s: %s", t.Title, t.word())
		}
	}
	return nil
}

// regressed reports whether a ratio to the lean floor surely is above its bound. In a phase without taints, the wall
// time is that of the bench's own writes.
func (l *Line) regressed() bool {
	return l.Lean.P99.Rounds > 0 && (l.Lean.Wall.above(l.LeanMost.Wall) || l.Lean.P99.above(l.LeanMost.P99))
}

// RatioTarget returns the target that a ratio is at most as great as it may be.
func RatioTarget(title string, ratio Ratio, most float64) Target {
	reached, undecided := ratio.Compare(most)
	return Target{Title: title, Detail: ratio.String(), Reached: reached, Undecided: undecided}
}

// word says whether the target is reached.
func (t *Target) word() string {
	switch {
	case t.Undecided:
		return "undecided"
	case t.Reached:
		return "reached"
	}
	return "NOT reached"
}

// MemoryTarget returns the MiB of memory that the operator may take at most, or 0 for a size without a target. With
// one, the operator runs with the GOMEMLIMIT that it sets itself in a container of that size.
func (r *Run) MemoryTarget() uint64 {
	targets := map[[2]int]uint64{{1000, 20}: 150, {5000, 50}: 300, {15000, 50}: 500, {100000, 10}: 2560}
	return targets[[2]int{r.Nodes, r.Rules}]
}

// most is what the operator may take, as multiples of what the equal floor takes.
type most struct{ wall, p99, heartbeats float64 }

// mostOf returns what the operator may take under so many rules.
func mostOf(rules int) most {
	if rules == 1 {
		return most{wall: 1.1, p99: 1.15, heartbeats: 1.2}
	}
	return most{wall: 1.2, p99: 1.25, heartbeats: 1.2}
}
