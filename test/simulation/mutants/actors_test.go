// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package mutants

// These are found by what people, reporters and kubelets do.
func init() {
	mutants = append(mutants, []mutant{
		{"7: a status that a condition cannot have is copied", `Status: v1alpha1.ConditionStatus(StatusOf(found)), Cause`,
			`Status: v1alpha1.ConditionStatus(map[bool]corev1.ConditionStatus{false: StatusOf(found),
			true: found.Status}[MUTANT]), Cause`, "status|published|blamed"},
		{"7: a status that a condition cannot have refutes", `	return corev1.ConditionUnknown
}`, `	if MUTANT {
		return corev1.ConditionFalse
	}
	return corev1.ConditionUnknown
}`, "published|taints|results"},
		{"21: the record of a rule that never existed is believed", `case known != nil && doubtful(`,
			`case !MUTANT && known != nil && doubtful(`, "ours"},
		{"8: the place of a deleted node is free", `if !l.kept || !used {`,
			`if MUTANT || !l.kept || !used {`, "places"},
		{"8: places of deleted nodes are forgotten at a restart", `	l.restore("", "", int(status.Deleted))`,
			`	if MUTANT {
		return
	}
	l.restore("", "", int(status.Deleted))`, "places"},
		{"8: each node that is ready frees the place of a deleted one",
			`(fresh || !before.firstReady) &&`, `(MUTANT || fresh || !before.firstReady) &&`, "places"},
		{"8: places of nodes that are deleted while no operator runs are free",
			`	if lost > 0 {`, `	if MUTANT {
		lost = 0
	}
	if lost > 0 {`, "places"},
		{"8: a place is kept for a minute", `l.deletedAt.Add(placeKept)`,
			`l.deletedAt.Add(map[bool]time.Duration{false: placeKept, true: time.Minute}[MUTANT])`, "places"},
		{"nodes are marked for which annotations have no room", `!taints.Fit(node.Annotations, marks)`,
			`!MUTANT && !taints.Fit(node.Annotations, marks)`, "quiescence"},
		{"the guard denies the deletions of all clients", `if !slices.Contains(h.Users, req.UserInfo.Username) ||`,
			`if !MUTANT && !slices.Contains(h.Users, req.UserInfo.Username) ||`, "frees"},
		{"bindings are not looked at", `		return binding.Target.Name, nil, err`, `		if MUTANT {
			return "", nil, nil
		}
		return binding.Target.Name, nil, err`, "binds"},
		{"a CRD that is being deleted is a foreign one", `problem := CompareCRD(ours, served)`,
			`problem := CompareCRD(ours, served)
		if MUTANT && !served.DeletionTimestamp.IsZero() {
			problem = &ruleset.Problem{Reason: ruleset.ReasonForeignCRD, Message: "it is being deleted"}
		}`, "gone|blamed|listed"},
		{"a taint of another component is not looked at", `return f.undated(!has, false, now), (*noTaintFound)(q)`,
			`return f.undated(MUTANT || !has, false, now), (*noTaintFound)(q)`, verdict},
		{"a heartbeat that goes back is not looked at", `			a.LastHeartbeatTime.Before(&b.LastHeartbeatTime) {`,
			`			!MUTANT && a.LastHeartbeatTime.Before(&b.LastHeartbeatTime) {`, verdict},
		{"a timeout that has ended does not release when its action is edited", `	if n.Rule.Spec.Timeout.Releases() {
		n.rec.Passed`, `	if n.Rule.Spec.Timeout.Releases() && (!MUTANT || n.d.TimedOut) {
		n.rec.Passed`, "taints|status"},
		{"a record of the version before counts in no failure domain",
			`	s.Domains = rule.Limit.Domains(s.Record.Domains, node.Labels)
`, `	if s.Domains = rule.Limit.Domains(s.Record.Domains, node.Labels); MUTANT && s.Claimed && s.Record.Domains == "" {
		s.Domains = rule.Limit.Domains("", nil)
	}
`, "domains|stays|room|places|limit|marked|status"},
		{"records of a later version are not read", `	return readJSON(value)
`, `	if MUTANT {
		return Record{}, false
	}
	return readJSON(value)
`, verdict +
			"|left|stands|ours|windows|booting|published|marker|replaces|evicted|quiescence|told"},
		{"a rule in the cache stays what it was", `if reflect.DeepEqual(&before.Spec, &rule.Spec) {`,
			`if MUTANT || reflect.DeepEqual(&before.Spec, &rule.Spec) {`, verdict + "|frozen|listed|blamed|gone"},
		{"a condition without a heartbeat is stale", `	if j.Heartbeat.IsZero() {
		j.Heartbeat = j.Since`, `	if !MUTANT && j.Heartbeat.IsZero() {
		j.Heartbeat = j.Since`, verdict},
		{"all clients may change records", `
      variables.was.all(k, !k.startsWith('nodegate.io/rule-') ||`, `
      variables.was.all(k, true || !k.startsWith('nodegate.io/rule-') ||`, "overruled"},
		{"marks that someone else has set are removed", `!found || have != value ||`, `!found || !MUTANT && have != value ||`,
			"replaces"},
		{"a time far ahead is believed", `latest, stamp := metav1.NewTime(now.Add(evidence.MaxClockSkew)),`,
			`latest, stamp := metav1.NewTime(now.Add(map[bool]time.Duration{false: evidence.MaxClockSkew,
				true: 1 << 62}[MUTANT])),`,
			"roomless"},
		{"records that nothing protects are believed", `if r.UnprotectedRecords {`,
			`if !MUTANT && r.UnprotectedRecords {`, "left|ours"},
		{"rules begin to publish on nodes that are being deleted", `if !p.Node.DeletionTimestamp.IsZero() && (d.Was.Record`,
			`if !MUTANT && !p.Node.DeletionTimestamp.IsZero() && (d.Was.Record`, "published|left"},
		{"first lists are of any age", `options.ResourceVersion == "0" {`, `options.ResourceVersion == "0" && !MUTANT {`,
			"limit|published|starts|places|left|status|taints"},
	}...)
}
