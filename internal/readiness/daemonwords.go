// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package readiness

import (
	"fmt"

	"github.com/nodegate/nodegate/internal/ruleset"
)

func (f *daemonSetsFound) message(q *ruleset.DaemonSets) string {
	if f.belong < q.Least() {
		return fmt.Sprintf("%d of the DaemonSets belong on this node, must be at least %d", f.belong, q.Least())
	}
	text := fmt.Sprintf("%d of %d DaemonSets that belong on this node are ready", f.ready, f.counted)
	if len(f.waiting) == 0 {
		return text
	}
	why := make([]string, len(f.waiting))
	for i := range f.waiting {
		why[i] = f.waiting[i].words()
	}
	return text + ": " + ruleset.Few(why, maxWaiting, len(why))
}

// words returns why a DaemonSet does not count.
func (w *waitingDaemonSet) words() string {
	if w.why == podAbsent {
		return w.absent()
	}
	return fmt.Sprintf("pod %s of DaemonSet %s %s", w.pod, w.set, w.why.words())
}

func (w *waitingDaemonSet) absent() string {
	text := fmt.Sprintf("DaemonSet %s has no pod", w.set)
	switch {
	case w.by == nil:
		return text
	case w.of == "":
		return fmt.Sprintf("%s, because of taint %s", text, w.by.ToString())
	}
	return fmt.Sprintf("%s, because of taint %s of rule %s", text, w.by.ToString(), w.of)
}

// warning names the DaemonSets that the requirement leaves out.
func (f *daemonSetsFound) warning(requirement string) string {
	if len(f.ignored) == 0 {
		return ""
	}
	names := make([]string, len(f.ignored))
	for i, d := range f.ignored {
		names[i] = d.String()
	}
	return fmt.Sprintf("requirement %s leaves out DaemonSets that do not tolerate this rule's own taint %s: %s: add a "+
		"toleration to them, or exclude them", requirement, f.own.ToString(), ruleset.Few(names, maxWaiting, len(names)))
}
