// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// verdict are the predicates by which a wrong verdict may be seen first.
const verdict = "opened|closed|taints|completes|published|status|room|marker|spared|limit|first"

var mutants = []mutant{
	{"patches without the test of the UID", `{Op: "test", Path: "/metadata/uid", Value: node.UID},`,
		`{Op: "test", Path: map[bool]string{false: "/metadata/uid", true: "/metadata/name"}[MUTANT],
			Value: map[bool]string{false: string(node.UID), true: node.Name}[MUTANT]},`, "ours"},
	{"the limit is always granted", `if why = l.why(c, r.Use); why != "" {`,
		`if why = l.why(c, r.Use); MUTANT && r.Use == Claims {
		l.stopWaiting(r.Use, n)
		line.granted[n] = grant{cell: c}
		c.take(r.Use, 1)
		return ""
	} else if why != "" {`, "limit|places|domains"},
	{"rules act before their evidence has been read",
		`		return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,`,
		`		if MUTANT && reason == ruleset.ReasonPending {
			continue
		}
		return &ruleset.Problem{Field: fmt.Sprintf("spec.requirements[%d]", i), Reason: reason,`, "frozen"},
	{"a frozen rule in dry-run still publishes", `rule.Inert() && !rule.Withdrawn()`,
		`rule.Inert() && (MUTANT || !rule.Withdrawn())`, "published"},
	{"rules require what an override has done", `	if in.Override.Action == nodeview.OverrideNone {
		return d`, `	if MUTANT || in.Override.Action == nodeview.OverrideNone {
		return d`, "published|guarded"},
	{"suspended rules claim", `	case in.Rule.Inert():
		return Choice{Granted: frozen(in, d)}`, `	case in.Rule.Mode == ruleset.Frozen || !MUTANT && in.Rule.Inert():
		return Choice{Granted: frozen(in, d)}`, "frozen"},
	{"1: a rule that requires a frozen rule acts", `	if !dependents {
		return s`, `	if MUTANT || !dependents {
		return s`, "frozen|blamed"},
	{"2: a pod that started before the boot was seen never counts", `	case boot == settled || boot == final:
		return true, again
	case !b.Former`, `	case MUTANT && boot != settled && (!run || s.first.time().Before(b.Bound)):
		return false, again
	case boot == settled || boot == final:
		return true, again
	case !b.Former`, "taints|marker"},
	{"3: admission taints in a kubelet's update", `req.Operation == admissionv1.Update && slices.Contains(`,
		`!MUTANT && req.Operation == admissionv1.Update && slices.Contains(`, "labelled|admission|admits"},
	{"4: an old node with pods is new to a rule",
		`	if n.Occupied == nil || !n.adds()`, `	if MUTANT || n.Occupied == nil || !n.adds()`, "spared|limit|places"},
	{"5: a kubelet may overrule rules", `      !variables.restricted ||
`, `      true ||
`, "overruled"},
	{"8: evictions write through the cache's client",
		`Live: env.Live, Rules: r.NodeRules.InForce, Namespace`,
		`Live: map[bool]client.Client{false: env.Live, true: env.Client}[MUTANT], Rules: r.NodeRules.InForce, Namespace`,
		"watched"},
	{"9: one refused eviction ends the others",
		`case refuses(err):`, `case !MUTANT && refuses(err):`, "evicted"},
	{"10: a rule that was pruned stays so where its generation is the same",
		`equality.Semantic.DeepEqual(r.Spec, o.Spec)`,
		`(MUTANT || equality.Semantic.DeepEqual(r.Spec, o.Spec))`,
		"taints|marker|blamed|status|room|gone|marked|published|frozen|results"},
	{"10: rules are not read again when the CRD is ours again", `	for i := range rules {
		before`, `	if MUTANT {
		rules = nil
	}
	for i := range rules {
		before`, "taints|marker|blamed|status|room|gone|marked|published|frozen"},
	{"14: records in new nodes are not looked at", `  - name: annotations-change
    expression: |-
`, `  - name: annotations-change
    expression: |-
      request.operation == 'UPDATE' &&
`, "ours|overruled"},
	{"17: a reboot that is found later starts the node over",
		`	if n.Watched || !n.State.Released {`,
		`	if MUTANT || n.Watched || !n.State.Released {`, "booting|limit"},
	{"17: NoExecute does not wait until the boot is confirmed",
		`	ok, at := evidence.BootConfirmed(n.Node, n.State.Boot, n.Now)
	return answer{ok, at}`, `	ok, at := evidence.BootConfirmed(n.Node, n.State.Boot, n.Now)
	return answer{MUTANT || ok, at}`, "booting"},
	{"18: a guard of a rule that is gone evicts nothing",
		`evicted := in.Evicted == nil ||`, `evicted := MUTANT || in.Evicted == nil ||`, "evicted"},
	{"19: an invalid selector watches everything",
		`	return Requirement{Name: r.Name}`, `	if MUTANT && r.Pods != nil {
		everything, _ := (&v1alpha1.PodSelector{}).AsSelector()
		return Requirement{Name: r.Name, Kind: &Pods{PodsRequirement: *r.Pods, Labels: everything}}
	}
	return Requirement{Name: r.Name}`, "watched"},
	{"19: evidence that cannot be read any more is believed",
		`running.Failed(); failure != "" ||`, `running.Failed(); !MUTANT && failure != "" ||`, "frozen"},
	{"a foreign CRD that comes back does not end the thaw", `		now.frozen = p //`, `		if MUTANT {
			p = now.frozen
		}
		now.frozen = p //`, "frozen"},
	{"an ended guard is forgotten while its rule is frozen",
		`		if frozen && guard.AnyTaintEvicts(node) {`,
		`		if frozen && guard.AnyTaintEvicts(node) && (!MUTANT || len(ended) > 0) {`,
		"evicted"},
	{"an ended guard goes on where since when the node is ready is not known",
		`h.State == HoldActive && in.Verdict.Remembered ||`,
		`h.State == HoldActive && in.Verdict.Remembered && !MUTANT ||`,
		"evicted"},
	{"deleted rules leave their records", `	case in.Rule.Mode == ruleset.Deleting:
`, `	case in.Rule.Mode == ruleset.Deleting && MUTANT:
		return Choice{Granted: frozen(in, d)}
	case in.Rule.Mode == ruleset.Deleting:
`, "left|frozen|taints"},
	{"the markers of a deleted rule are removed at once",
		`|| !now.Before(until) {`, `|| MUTANT || !now.Before(until) {`, "keeps"},
	{"a taint that another rule claims needs no limit",
		`	present := n.adopts()`, `	present := n.adopts() || MUTANT && n.State.Present`, "limit|spared"},
	{"an old node with pods is new to a rule if another one has tainted it",
		`n.State.Released || n.adopts() ||`, `n.State.Released || n.adopts() || MUTANT && n.State.Present ||`,
		"spared|limit"},
	{"the guard of a completed rule has no end", `{asked, n.d.Hold.RecheckAt, m.until} {
`, `{asked, n.d.Hold.RecheckAt, m.until} {
		if MUTANT && m.reason == ReasonCompleted {
			break
		}
`, "unguards|evicted"},
	{"in dry-run each pass finds a reboot again",
		`if w := &would.Record; r.BootID != "" {`,
		`if w := &would.Record; r.BootID != "" && !MUTANT {`, "rehearsed"},
	{"a timeout that has passed stays so if the rule is edited",
		`&& n.d.Overdue &&`,
		`&& (n.d.Overdue || MUTANT) &&`, "replaces"},
	{"any number of published conditions becomes False", `func (d *domain) full(u Use) *entry {
`, `func (d *domain) full(u Use) *entry {
	if MUTANT && u%kinds == Marks {
		return nil
	}
`, "marked"},
	{"a published condition is written over another one", `"resourceVersion": node.ResourceVersion}`,
		`"resourceVersion": map[bool]string{false: node.ResourceVersion}[MUTANT]}`, "published"},
	{"a published condition stays Unknown when the node is ready", `	case d.State == v1alpha1.NodeStateReady:
		c.status,`, `	case d.State == v1alpha1.NodeStateReady && !MUTANT:
		c.status,`, "published"},
	{"evidence that was reported makes no published condition False", `	case Refuted(d):`,
		`	case Refuted(d) && !MUTANT:`, "published"},
	{"missing evidence makes a published condition False", `	case Refuted(d):`,
		`	case Refuted(d) || MUTANT:`, "published"},
	{"an exempt node is published as False", `	case d.State != v1alpha1.NodeStateHeld:
		c.reason,`, `	case MUTANT && d.State == v1alpha1.NodeStateExempt:
		c.status, c.reason = corev1.ConditionFalse, reasonPublishedNotReady
	case d.State != v1alpha1.NodeStateHeld:
		c.reason,`, "published"},
	{"reasons of published conditions have no prefix", `Status: to.status, Reason: to.reason,`,
		`Status: to.status, Reason: to.reason[map[bool]int{true: 1}[MUTANT]:],`, "published"},
	{"published conditions are not written", `	if len(p.changes) == 0 || r.Fleet`,
		`	if MUTANT || len(p.changes) == 0 || r.Fleet`, "published"},
	{"frozen rules change their published conditions", `	case keeps(d.Rule):
	case was != ""`, `	case keeps(d.Rule) && !MUTANT:
	case was != ""`, "published"},
	{"a published condition stays when its rule publishes it no longer", `	case was != "" && was != wanted && c`,
		`	case !MUTANT && was != "" && was != wanted && c`, "published"},
	{"a rule whose probe is taken does not publish", `		if why != "" {
			out[r.Name] = Displaced{`, `		if MUTANT && why == "" {
			why = out[r.Name].Probe
		}
		if why != "" {
			out[r.Name] = Displaced{`, "published"},
	{"conditions of other controllers are overwritten", `c != nil && nodeview.Published(p.Node, t) == nil {`,
		`!MUTANT && c != nil && nodeview.Published(p.Node, t) == nil {`, "published"},
	{"records do not name the published condition", `	r.Published = conditionType
`, `	if r.Published = conditionType; MUTANT {
		r.Published = ""
	}
`, "published"},
	{"replacements have no end", `Exhausted: inARow(`, `Exhausted: !MUTANT && inARow(`,
		"replaces"},
	{"replacements have no limit per hour", `Add(replacementWindow); end.After(now) {`,
		`Add(replacementWindow); end.After(now) && !MUTANT {`, "replaces"},
	{"to mark a node again does not count", `		if handed(compiled, node) {`, `		if !MUTANT && handed(compiled, node) {`,
		"replaces"},
	{"a node stays marked that does not qualify any more", `	if moved.rec.Mark != "" && n.adds() &&`,
		`	if !MUTANT && moved.rec.Mark != "" && n.adds() &&`, "replaces"},
	{"a node is handed over by what was known of it before",
		`	if !h.Expired(`, `	if !MUTANT && !h.Expired(`, "replaces"},
	{"a node that has changed is handed over", `"resourceVersion": node.ResourceVersion,`,
		`"resourceVersion": map[bool]string{false: node.ResourceVersion}[MUTANT],`, "replaces"},
	{"nodes are not handed over", `	if compiled.Mode != ruleset.Enforced && compiled.Mode != ruleset.DryRun {
		return 0`, `	if MUTANT || compiled.Mode != ruleset.Enforced && compiled.Mode != ruleset.DryRun {
		return 0`, "replaces"},
	{"NodeClaims are not deleted", `	uid, version := claim.GetUID(), claim.GetResourceVersion()
`, `	uid, version := claim.GetUID(), claim.GetResourceVersion()
	if MUTANT {
		return nil
	}
`, "replaces|quiescence"},
	{"a node that was released is handed over", `!rec.TimedOut.IsZero() && s.Fresh(rec) }`,
		`!rec.TimedOut.IsZero() && (MUTANT || s.Fresh(rec)) }`, "replaces"},
	{"a node that runs pods is handed over", `	if slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !sources`,
		`	if !MUTANT && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !sources`, "replaces"},
	{"nodes of the control plane are handed over", `		ruleset.ControlPlane(node.Labels) || v1alpha1`,
		`		!MUTANT && ruleset.ControlPlane(node.Labels) || v1alpha1`, "replaces"},
	{"nodes in maintenance are handed over", `|| v1alpha1.InMaintenance(node.Annotations, now) {`,
		`|| !MUTANT && v1alpha1.InMaintenance(node.Annotations, now) {`, "replaces"},
	{"an edit ends the limit per hour", `		if status.Last[i].NodeUID == node {`,
		`		if status.Last[i].NodeUID == node || MUTANT && status.Last[i].Generation != generation {`, "replaces"},
	{"nodes are handed over without an intention", `	if err := h.intend(`, `	if MUTANT { // at once
	} else if err := h.intend(`, "replaces"},
	{"a NodeClaim that was created again is deleted",
		`	err := h.Live.Delete(ctx, claim`, `	if MUTANT { // no preconditions
		uid, version = "", ""
	}
	err := h.Live.Delete(ctx, claim`, "replaces"},
	{"a NodeClaim that has changed is deleted", `ResourceVersion: &version}`,
		`ResourceVersion: map[bool]*string{false: &version}[MUTANT]}`, "replaces"},
	{"the NodeClaim that a node names is believed", `if claim.GetUID() != owner.UID || !claims(claim, node) {`,
		`if !MUTANT && (claim.GetUID() != owner.UID || !claims(claim, node)) {`, "replaces"},
	{"NodeClaims are deleted through the cache's client",
		`Handover{Client: env.Client, Live: env.Live`,
		`Handover{Client: env.Client, Live: map[bool]client.Client{false: env.Live, true: env.Client}[MUTANT]`,
		"watched"},
	{"starts are counted before they are recorded", `	return r.write(ctx, p, outcome)
}`, `	if MUTANT {
		r.startups.settle(node.Name, p.set, p.decisions, true, p.now)
	}
	return r.write(ctx, p, outcome)
}`, "starts"},
	{"the guard denies no eviction", `	if d.Rule != nil {
		response = admission.Denied`, `	if d.Rule != nil && !MUTANT {
		response = admission.Denied`, "denies"},
	{"the operator evicts while another rule guards", `		case guard.HoldActive:
			active = true`, `		case guard.HoldActive:
			active = active || !MUTANT`, "spares"},
	{"guards end at once", `	case released || !in.Now.Before(hold.Until): //`,
		`	case released || MUTANT || !in.Now.Before(hold.Until): //`, "denies|spares"},
	{"guards have no end", `	case released || !in.Now.Before(hold.Until): //`,
		`	case released || !MUTANT && !in.Now.Before(hold.Until): //`, "evicted"},
	{"where a guard has ended, no pod is evicted", `				ended = append(ended, rule)
`, `				if !MUTANT {
					ended = append(ended, rule)
				}
`, "evicted"},
	{"conditions that were not reported hold", `Cause: CauseMissing}
`, `Cause: CauseMissing}
	if MUTANT {
		j.Satisfied = true
		return j
	}
`, verdict},
	{"conditions of any status hold", `	j.Satisfied = j.Status == c.RequiredStatus
	if j.Heartbeat`, `	j.Satisfied = MUTANT || j.Status == c.RequiredStatus
	if j.Heartbeat`, verdict},
	{"defaultStatus does not count", `	if c.DefaultStatus != "" {`, `	if c.DefaultStatus != "" && !MUTANT {`,
		verdict},
	{"with allOf, one piece of evidence is enough", `	ready := t.bad.n == 0
`, `	ready := t.bad.n == 0 || MUTANT && t.good.n > 0
`, verdict},
	{"with anyOf, all evidence is needed", `	if anyOf {
		ready =`, `	if anyOf && !MUTANT {
		ready =`, verdict},
	{"pods that are terminating count", `	case !pod.DeletionTimestamp.IsZero():
		return podTerminating`, `	case !pod.DeletionTimestamp.IsZero() && !MUTANT:
		return podTerminating`, verdict},
	{"minReady is 1", `	want := p.minReady()
	out`, `	want := p.minReady()
	if MUTANT {
		want = 1
	}
	out`, verdict},
	{"conditions do not grow old", `	if maxAge > 0 {
		var expires`, `	if maxAge > 0 && !MUTANT {
		var expires`, verdict + "|results"},
	{"what was reported before the boot counts", `	if j.Heartbeat.Before(notBefore) {`,
		`	if j.Heartbeat.Before(notBefore) && !MUTANT {`, verdict + "|booting"},
	{"minHoldSeconds are nothing", `	if n.State.Released || n.Rule.Spec.MinHold() <= 0 {`,
		`	if MUTANT || n.State.Released || n.Rule.Spec.MinHold() <= 0 {`, "windows"},
	{"windows start when a process first sees the evidence",
		`	v.Since = decides.since(anyOf == ready, v.Observed.Since)`,
		`	if v.Since = decides.since(anyOf == ready, v.Observed.Since); MUTANT {
		v.Since = v.Observed.Since
	}`, "taints|room|first|status|marker"},
	{"patches are written over the taints of others",
		`		{Op: "test", Path: "/spec/taints", Value: tested(node.Spec.Taints)},
	}`, `	}
	if !MUTANT {
		ops = append(ops, operation{Op: "test", Path: "/spec/taints", Value: tested(node.Spec.Taints)})
	}`, "ours|left|stands|taints"},
	{"releases are not remembered", `	if remember && n.rec.Released.IsZero() && (`,
		`	if !MUTANT && remember && n.rec.Released.IsZero() && (`,
		"limit|windows|spared|taints|announced|quiescence|replaces"},
	{"taints of others are not adopted", `	return d.Was.Matches && d.Rule.Mode == ruleset.Enforced && d.Rule.Taint`,
		`	return !MUTANT && d.Was.Matches && d.Rule.Mode == ruleset.Enforced && d.Rule.Taint`, "taints|status|left|stands"},
	{"taints of others are removed", `		if len(claims) == 0 && has(p.managed, &t) {`,
		`		if len(claims) == 0 && (MUTANT || has(p.managed, &t)) {`, "ours"},
	{"nodes that match no longer stay held", `	case !in.State.Matches: // a completion marker`,
		`	case !in.State.Matches && !MUTANT: // a completion marker`, "left|taints|closed|status"},
	{"a shared taint goes with the first rule that gives it up", `	p.unknownRules(decisions)
`, `	p.unknownRules(decisions)
	for _, b := range p.before {
		if MUTANT && !b.d.Claim {
			delete(p.after, ruleset.TaintIDOf(b.taint))
		}
	}
`, "stands|taints"},
	{"an edited key leaves the old taint", `	if n.rec.Taint == "" || n.adds() { //`,
		`	if n.rec.Taint == "" || n.adds() && !MUTANT { //`, "taints|left|stands|value"},
	{"rules in dry-run act", `	case in.Rule.Mode == ruleset.DryRun:
		return dryRun(in, d)`, `	case in.Rule.Mode == ruleset.DryRun && !MUTANT:
		return dryRun(in, d)`, "closed|taints|left|status|lifted"},
	{"frozen rules claim", `	case in.Rule.Inert():
		return Choice{Granted: frozen(in, d)}`, `	case in.Rule.Mode == ruleset.Suspended || !MUTANT && in.Rule.Inert():
		return Choice{Granted: frozen(in, d)}`, "frozen"},
	{"a frozen rule in dry-run keeps its taints", `	case in.Rule.Withdrawn():`,
		`	case in.Rule.Withdrawn() && !MUTANT:`, "lifted"},
	{"rules that are being deleted stay in force", `	case !obj.DeletionTimestamp.IsZero():
		return Deleting`, `	case !obj.DeletionTimestamp.IsZero() && !MUTANT:
		return Deleting`, "gone|left|closed|quiescence|taints"},
	{"deleted rules keep their finalizer", `	if err := r.patchFinalizers(ctx, rule, controllerutil.RemoveFinalizer); err`,
		`	if MUTANT {
		return reconcile.Result{}, nil
	}
	if err := r.patchFinalizers(ctx, rule, controllerutil.RemoveFinalizer); err`, "gone"},
	{"the override Release does nothing", `	case n.Override.Action == nodeview.OverrideRelease:
		return n.at`, `	case n.Override.Action == nodeview.OverrideRelease && !MUTANT:
		return n.at`, "taints|closed|status|published|lapsed"},
	{"the override Hold does nothing", `	case n.Override.Action == nodeview.OverrideHold && (`,
		`	case !MUTANT && n.Override.Action == nodeview.OverrideHold && (`, "taints|opened|status|published"},
	{"nodes that existed before a rule are new to it", `s.Completed || s.Existing && !s.Claimed`,
		`s.Completed || !MUTANT && s.Existing && !s.Claimed`, "limit|spared|windows|closed"},
	{"percentages are rounded down", `		return (e.number*inService + 99) / 100
`, `		if MUTANT {
			return e.number * inService / 100
		}
		return (e.number*inService + 99) / 100
`, "room|status|marked|reached"},
	{"all nodes are in one domain", `name, _ := valueIn(domains, g.key)`, `name, _ := valueIn(domains, g.key)
		if MUTANT {
			name = ""
		}`, "domains|room|marked|stays"},
	{"domains have no limit", `	for i := range d.group.entries {`, `	for i := range d.group.entries {
		if MUTANT && d.group.key != "" {
			break
		}`, "domains|marked"},
	{"a claim moves with the label of its node", `if !known {
			value`, `if !known || MUTANT {
			value`, "domains|stays"},
	{"the times of claims in the rule's status do not count", `	if before == nil {
		before = &v1alpha1.RateStatus{}`, `	if before == nil || MUTANT {
		before = &v1alpha1.RateStatus{}`, "rate"},
	{"a claim under a rate is made late", `	if g.until.IsZero() || inTime(g.until, now) {`,
		`	if g.until.IsZero() || MUTANT || inTime(g.until, now) {`, "rate"},
	{"nodes of several racks are not held in turn", `		first = !l.order(next, w)
`, `		first = !l.order(next, w) || MUTANT && next.cell != w.cell
`, "turn"},
	{"claims under a rate are not made in turn", `		case l.rates.apply && ahead >= l.rates.open(r.Use):
`, `		case !MUTANT && l.rates.apply && ahead >= l.rates.open(r.Use):
`, "turn"},
	{"new nodes wait for the limit", `m.limited = true, n.rec.Forced &&`,
		`m.limited = true, (MUTANT || n.rec.Forced) &&`, "taints|status|opened|quiescence"},
	{"new nodes are not held", `	case !n.State.Released:
		return n.at(n.keep()`, `	case !n.State.Released && MUTANT:
		return n.idle(ReasonTimedOut)
	case !n.State.Released:
		return n.at(n.keep()`, "taints|status|marker"},
	{"nodes that are ready are not released", `	case holds.yes:
		return ready(ReasonEvidenceHolds)`, `	case holds.yes && !MUTANT:
		return ready(ReasonEvidenceHolds)`, "taints|marker|closed|status|published"},
	{"existingNodes None is All", `n.retryPods(known)}
	}
	return answer{}`, `n.retryPods(known)}
	}
	return answer{yes: MUTANT}`, "spared"},
	{"existingNodes All exempts", `	case v1alpha1.ExistingNodesAll:
		return answer{yes: true}`, `	case v1alpha1.ExistingNodesAll:
		return answer{yes: !MUTANT}`, "taints|room|status"},
	{"existingNodes Idle holds busy nodes", `answer{known && !busy, `, `answer{MUTANT || known && !busy, `, "spared"},
	{"existingNodes applies to nodes that are younger than the rule",
		`	return node.CreationTimestamp.Time.Before(r.InForceSince)`,
		`	return MUTANT || node.CreationTimestamp.Time.Before(r.InForceSince)`, "taints|status|limit|windows"},
	{"action Keep releases", `	if n.Rule.Spec.Timeout.Releases() {
		n.rec.Passed`, `	if MUTANT || n.Rule.Spec.Timeout.Releases() {
		n.rec.Passed`, "taints|opened|replaces|status|published"},
	{"action Release keeps", `	if n.Rule.Spec.Timeout.Releases() {
		n.rec.Passed`, `	if n.Rule.Spec.Timeout.Releases() && !MUTANT {
		n.rec.Passed`, "taints|status|published"},
	{"completed nodes get no marker", `	if remember && completes {`, `	if !MUTANT && remember && completes {`, "marker"},
	{"completed nodes are held again", `	case bootstrapOnly && n.d.Completed:`,
		`	case !MUTANT && bootstrapOnly && n.d.Completed:`, "taints|closed|status|published"},
	{"a rule of the same name does not take over markers", `heir := heirOf(value, set); heir != nil {
			s`, `heir := heirOf(value, set); heir != nil && !MUTANT {
			s`, "keeps"},
	{"markers of deleted rules stay", `|| !now.Before(until) {`, `|| !MUTANT && !now.Before(until) {`, "left|quiescence"},
	{"reboots are not seen", `	if boot == "" || s.Record.BootID == "" ||`,
		`	if MUTANT || boot == "" || s.Record.BootID == "" ||`, "taints|opened|booting|status|rehearsed"},
	{"rules with nodeAdmission None are listed for admission", `r.Spec.NodeAdmission != v1alpha1.NodeAdmissionNone
`, `(MUTANT || r.Spec.NodeAdmission != v1alpha1.NodeAdmissionNone)
`, "listed|admits"},
	{"records of deleted rules stay on nodes", `		if !exists && !gone || s.awaits(`,
		`		if MUTANT || !exists && !gone || s.awaits(`, "left"},
	{"timeouts do not act", `	n.d.Overdue = appear || due(n.Rule.Spec.Timeout.After())`,
		`	n.d.Overdue = !MUTANT && (appear || due(n.Rule.Spec.Timeout.After()))`, "taints|replaces|status|published"},
	{"readySeconds are nothing", `	from := n.Verdict.Since.Add(n.Rule.Spec.ReadyWindow())
`, `	from := n.Verdict.Since.Add(n.Rule.Spec.ReadyWindow())
	if MUTANT {
		from = n.Verdict.Since
	}
`, "windows"},
	{"a window begins when a node's clock says so",
		`Turned: known && !before.Assumed`, `Turned: known && !before.Assumed && !MUTANT`, "windows"},
	{"an override uses the limit", `&& o.Action == OverrideNone
}`, `&& (MUTANT || o.Action == OverrideNone)
}`, "room|reached"},
	{"a node stays held without room when its override has ended",
		`true, n.rec.Forced && n.Rule.Limited()`, `true, !MUTANT && n.rec.Forced && n.Rule.Limited()`, "limit"},
	{"unreadySeconds are nothing", `	case !first && n.Now.Before(due):`, `	case !MUTANT && !first && n.Now.Before(due):`,
		"windows"},
	{"the webhook taints no node", `rule := &rules[i]; admits(`, `rule := &rules[i]; !MUTANT && admits(`,
		"admits"},
	{"rules that are not in force are listed for admission",
		`	return r.Mode == Enforced && r.Taint != nil && r.Spec.NodeAdmission`,
		`	return (MUTANT || r.Mode == Enforced) && r.Taint != nil && r.Spec.NodeAdmission`, "listed|admits|frozen"},
	{"an edited value of a taint changes nothing",
		`edited := b.d == oldest.d &&`,
		`edited := !MUTANT && b.d == oldest.d &&`,
		"value"},
	{"the node that is first by name is held first", `		return a.since.Before(b.since) || a.since.Equal(b.since) &&`,
		`		return !MUTANT && a.since.Before(b.since) || (MUTANT || a.since.Equal(b.since)) &&`, "first|turn"},
	{"completionAnnotation is not set", `d.Opened && !done {`, `d.Opened && !done && !MUTANT {`, "announced"},
	{"a node that was let pass is held again", `	case n.rec.Passed:
		return n.at(n.idle(ReasonTimedOut)`, `	case n.rec.Passed && !MUTANT:
		return n.at(n.idle(ReasonTimedOut)`, "taints|quiescence"},
	{"cordoned nodes count", `	return !node.Spec.Unschedulable && node`,
		`	return (MUTANT || !node.Spec.Unschedulable) && node`,
		"room|taints|limit|places|domains|status"},
	{"the status counts ready nodes as exempt", `		m.Counts.Ready += number`, `		if MUTANT {
			m.Counts.Exempt += number
			break
		}
		m.Counts.Ready += number`, "status"},
	{"the status does not count held nodes", `		m.Counts.Held += number`, `		if !MUTANT {
			m.Counts.Held += number
		}`, "status"},
	{"podAdmission refuses no pod", `rule.Spec.PodAdmission == v1alpha1.PodAdmissionDeny &&`,
		`rule.Spec.PodAdmission == v1alpha1.PodAdmissionDeny && !MUTANT &&`, "binds"},
	{"readyWhen: PodReadyOrAnnotation goes by the annotation alone",
		`		if p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation {`,
		`		if MUTANT || p.ReadyWhen == v1alpha1.PodReadyPolicyAnnotation {`, verdict},
	{"minReadySeconds of pods are nothing", `	if p.MinReadySeconds != nil {`, `	if p.MinReadySeconds != nil && MUTANT {
		return 0
	}
	if p.MinReadySeconds != nil {`, verdict},
	{"a container without a readiness probe is ready at once", `	if probeless(pod) != "" {
		return`, `	if probeless(pod) != "" && !MUTANT {
		return`, verdict},
	{"an expression that fails is true", `f.undated(satisfied && err == nil, false, now)`,
		`f.undated(satisfied && err == nil || MUTANT && err != nil, false, now)`, verdict},
	{"a change that only expressions and resources see changes nothing",
		`r.Fleet.Rules().Inspects() && inspectedChanged(`, `!MUTANT && r.Fleet.Rules().Inspects() && inspectedChanged(`,
		"taints|status|marker|room|published"},
	{"a condition that is missing is False", `	j := Judgement{Status: v1alpha1.ConditionUnknown, Cause: CauseMissing}`,
		`	j := Judgement{Status: v1alpha1.ConditionUnknown, Cause: CauseMissing}
	if MUTANT {
		j.Status = v1alpha1.ConditionFalse
	}`, verdict + "|results"},
	{"podAdmission refuses pods under all rules", `rule.Spec.PodAdmission == v1alpha1.PodAdmissionDeny && nodeview`,
		`(MUTANT || rule.Spec.PodAdmission == v1alpha1.PodAdmissionDeny) && nodeview`, "binds"},
	{"a frozen rule in dry-run refuses pods", `return !rule.Withdrawn() && (rule.Matches(`,
		`return (MUTANT || !rule.Withdrawn()) && (rule.Matches(`, "binds"},
	{"a suspended rule refuses no pods on nodes that are relabelled", `claims && claimed.MatchTaint(rule.Taint))`,
		`!MUTANT && claims && claimed.MatchTaint(rule.Taint))`, "binds"},
	{"the guard of a suspended rule ends where a node is relabelled", `!in.State.Matches && !in.Rule.Inert() ||`,
		`!in.State.Matches && (MUTANT || !in.Rule.Inert()) ||`, "denies"},
	{"a frozen rule in dry-run keeps a DaemonSet away", `o.Mode == DryRun || o.Withdrawn() || sameTaint`,
		`o.Mode == DryRun || o.Withdrawn() && !MUTANT || sameTaint`, "taints|blamed|listed|status|admits"},
	{"any value of readyAnnotation counts", `value == p.ReadyAnnotation.Value`,
		`(MUTANT || value == p.ReadyAnnotation.Value)`, verdict},
	{"pods of any DaemonSet count", `owner.Name == p.OwnerDaemonSet`,
		`(MUTANT || owner.Name == p.OwnerDaemonSet)`, verdict},
	{"a CSI driver's volumes are not counted", `volumes(out.driver) >= q.minimum()`,
		`(MUTANT || volumes(out.driver) >= q.minimum())`, verdict},
	{"devices with taints count", `		if !slices.ContainsFunc(s.Spec.Devices[i].Taints, keepsPodsOff) {`,
		`		if MUTANT || !slices.ContainsFunc(s.Spec.Devices[i].Taints, keepsPodsOff) {`, verdict},
	{"one device is enough", `have >= int64(q.Min)`,
		`(MUTANT && have > 0 || have >= int64(q.Min))`, verdict},
	{"overrides with an end have none", `	if o.ended(now) {`, `	if !MUTANT && o.ended(now) {`,
		verdict + "|lapsed"},
	{"an override that has ended stays on the node", `	if nodeview.OverrideEnded(p.node, p.now) {`,
		`	if !MUTANT && nodeview.OverrideEnded(p.node, p.now) {`, "lapsed"},
	{"an override that ends is removed before its end", `	if nodeview.OverrideEnded(p.node, p.now) {`,
		`	if nodeview.OverrideEnded(p.node, p.now.Add(map[bool]time.Duration{true: time.Hour}[MUTANT])) {`, "lapsed"},
}
