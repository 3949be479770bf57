// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeview

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/lru"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/internal/evidence"
	"github.com/nodegate/nodegate/internal/ruleset"
)

// Record is what the operator remembers about one rule on one node. Its JSON is the value of the annotation
// nodegate.io/rule-<UID of the rule>. All times are in seconds, UTC.
type Record struct {
	// Rule is the rule's name, for people: the key has only its UID.
	Rule string `json:"rule,omitempty"`
	// Taint is the taint that the rule claims on the node, as key=value:effect, with the value that the rule asked for.
	// It is empty if the rule claims none.
	Taint string `json:"taint,omitempty"`
	// Since is when the claim was made. It is zero if an admission policy made the claim, because a policy has no
	// clock.
	Since metav1.Time `json:"since,omitzero"`
	// Own says that the operator wrote the claim, in a record that admission could have written otherwise; see Admitted.
	Own bool `json:"own,omitempty"`
	// Late says, for a claim without Since, that it was made when the rule began to match an existing node. Its time
	// then starts when the controller sees it, and not with the node's creation.
	Late bool `json:"late,omitempty"`
	// Adopted says that another client had added the taint before the rule claimed it.
	Adopted bool `json:"adopted,omitempty"`
	// Limited says that maxUnavailable counts the claim, even while the node is cordoned or terminating.
	Limited bool `json:"limited,omitempty"`
	// Domains are the failure domains in which the limits count the claim, as limit.Rule.Domains has them.
	Domains string `json:"domains,omitempty"`
	// Forced says that the claim was made on a node in service without asking maxUnavailable: for the override Hold,
	// while the node was cordoned, or before the rule had a limit. After that, the node stays held only if the limit
	// allows it.
	Forced bool `json:"forced,omitempty"`
	// Existing says that the node was in service when the rule first concerned it, so that existingNodes applied.
	Existing bool `json:"existing,omitempty"`
	// Released is when the node was first released since it was created or re-armed, or when it was found in service.
	// Zero means never.
	Released metav1.Time `json:"released,omitzero"`
	// Found says that Released is not when a node that was new under the rule became ready for the first time.
	Found bool `json:"found,omitempty"`
	// TimedOut is when the rule's timeout last passed. Passed says that it released the node: an edit of the rule does
	// not hold the node again. Both are cleared when the node is ready.
	TimedOut metav1.Time `json:"timedOut,omitzero"`
	Passed   bool        `json:"passed,omitempty"`
	// BootID is the node's boot ID, if the rule re-arms on reboot. See bootID.
	BootID string `json:"bootID,omitempty"`
	// NotBefore is, on a re-armed node, the Ready heartbeat in the version of the node that brought BootID. Evidence
	// from before it does not count. It is cleared on release.
	NotBefore metav1.Time `json:"notBefore,omitzero"`
	// RearmedAt is when the operator re-armed the node, by the operator's clock. Former is the newest time of the
	// record before that: a container that started earlier is from an earlier boot. Both are cleared on release.
	RearmedAt metav1.Time `json:"rearmedAt,omitzero"`
	Former    metav1.Time `json:"former,omitzero"`
	// Starting says, on a re-armed node, that it rebooted before its start had ended. The start continues.
	Starting bool `json:"starting,omitempty"`
	// GuardedSince is when the node became not ready. maxHoldSeconds count from it. It is there while the guard is
	// active, and until all pods that are due are evicted.
	GuardedSince metav1.Time `json:"guardedSince,omitzero"`
	// GuardEnded is when the guard ended although the node was not ready: maxHoldSeconds had passed, the override
	// Release was set, or the rule no longer guarded the node. It is cleared when the node is ready, or is guarded
	// again. If the rule no longer guards the node, both times are cleared when all pods that are due are evicted.
	GuardEnded metav1.Time `json:"guardEnded,omitzero"`
	// Published is the type of the node condition that the rule publishes. It is recorded before the condition is
	// written, and cleared after the condition is removed.
	Published string `json:"published,omitempty"`
	// Health is the answer of /health for a rule with health that only the operator can evaluate. It is empty if there
	// is no verdict yet, or if the rule does not count.
	Health v1alpha1.HealthVerdict `json:"health,omitempty"`
	// Missed says that the node was counted as one that missed the startup objective, and is still starting.
	Missed bool `json:"missed,omitempty"`
	// Counted says that the node's start was counted, although the rest of the record is that of a starting node.
	Counted bool `json:"counted,omitempty"`
	// Mark is the annotation, as key=value, by which the rule hands the node over for replacement. It is written together
	// with the annotation, and removed together with it when the node does not qualify any more.
	Mark string `json:"mark,omitempty"`
	// Handed says that the rule has marked the node, now or before. It is cleared when the node is ready.
	Handed bool `json:"handed,omitempty"`
}

// fields returns the fields of a record, in the order of the JSON.
func (r *Record) fields() [27]field {
	return [...]field{
		{"rule", &r.Rule}, {"taint", &r.Taint}, {"since", &r.Since}, {"own", &r.Own}, {"late", &r.Late},
		{"adopted", &r.Adopted}, {"limited", &r.Limited}, {"domains", &r.Domains}, {"forced", &r.Forced},
		{"existing", &r.Existing}, {"released", &r.Released}, {"found", &r.Found}, {"timedOut", &r.TimedOut},
		{"passed", &r.Passed}, {"bootID", &r.BootID}, {"notBefore", &r.NotBefore}, {"rearmedAt", &r.RearmedAt},
		{"former", &r.Former}, {"starting", &r.Starting}, {"guardedSince", &r.GuardedSince},
		{"guardEnded", &r.GuardEnded}, {"published", &r.Published}, {"health", (*string)(&r.Health)},
		{"missed", &r.Missed}, {"counted", &r.Counted}, {"mark", &r.Mark}, {"handed", &r.Handed},
	}
}

// Empty reports whether the record has no content.
func (r *Record) Empty() bool {
	without := *r
	without.Rule = ""
	return without == Record{}
}

// Admitted reports whether the record has the form in which admission writes claims. The record guard accepts this form
// from the creator of a node, too.
func (r *Record) Admitted() bool {
	return *r == Record{Rule: r.Rule, Taint: r.Taint, Since: r.Since, Late: r.Late} && r.Rule != "" && r.Taint != ""
}

// RecordOn returns the key and the value of the rule's record on a node. If it has none, they are those of the rule
// that it continues. So they are if admission has claimed the node for the rule meanwhile, because it does not know the
// other record: what the operator wrote there says more.
func RecordOn(rule *ruleset.Rule, node *corev1.Node) (key, value string, ok bool) {
	value, ok = node.Annotations[rule.RecordKey()]
	former, _ := rule.FormerKeys(node)
	if former == "" {
		return rule.RecordKey(), value, ok
	}
	before, recorded := node.Annotations[former]
	if recorded && ok {
		own, legible := ReadRecord(value)
		predecessor, readable := ReadRecord(before)
		recorded = (!legible || own.Admitted()) && readable && !predecessor.Admitted()
	}
	if recorded {
		return former, before, true
	}
	return rule.RecordKey(), value, ok
}

// Short returns the record without what the operator can do without, for a node whose annotations have little room. A
// reboot that is not recorded counts as seen.
func (r Record) Short() Record {
	r.Rule, r.Domains, r.Adopted = "", "", false
	r.ForgetBoot()
	return r
}

// Started reports whether a record says that the node's start has ended.
func (r *Record) Started() bool {
	return r.Counted || r.Existing || !r.Released.IsZero() || !r.TimedOut.IsZero() || !r.RearmedAt.IsZero() && !r.Starting
}

// FirstReady returns when the node, which was new under the rule, became ready for the first time, or zero if it did
// not, or that is not known. A record also says that a node is released if it was in service when it was first held.
func (r *Record) FirstReady() time.Time {
	if r.Found {
		return time.Time{}
	}
	return r.Released.Time
}

// ForgetBoot drops the boot from the record because the rule no longer re-arms. It keeps the end of the start, also
// on a node whose timeout has ended since it rebooted.
func (r *Record) ForgetBoot() {
	r.Counted = r.Counted || !r.RearmedAt.IsZero() && !r.Starting && r.Released.IsZero() && !r.Existing
	r.KeepStart(func() {
		r.BootID = ""
		r.Booted()
	})
}

// KeepStart changes the record. If it said that the start has ended, it still does.
func (r *Record) KeepStart(change func()) {
	started := r.Started()
	change()
	r.Counted = started && (r.Counted || !r.Started())
}

// DropClaim removes the claim.
func (r *Record) DropClaim() {
	r.Taint, r.Since, r.Own, r.Late, r.Adopted = "", metav1.Time{}, false, false, false
	r.Limited, r.Domains, r.Forced = false, "", false
}

// newest returns the newest time of the record.
func (r *Record) newest() metav1.Time {
	newest := metav1.Time{}
	for _, t := range []metav1.Time{r.Since, r.Released, r.TimedOut, r.GuardedSince, r.GuardEnded, r.RearmedAt} {
		if newest.Before(&t) {
			newest = t
		}
	}
	return newest
}

// Booted removes the boot, after the release of a re-armed node.
func (r *Record) Booted() {
	r.NotBefore, r.RearmedAt, r.Former, r.Starting = metav1.Time{}, metav1.Time{}, metav1.Time{}, false
}

// Encode returns the value of the annotation.
func (r Record) Encode() string { return string(r.append(nil)) }

// EncodedAs reports whether the value of an annotation is the encoded record. It encodes into the buffer, which it
// allocates if it is nil.
func (r *Record) EncodedAs(value string, buffer *[]byte) bool {
	if *buffer == nil {
		*buffer = make([]byte, 0, 512)
	}
	*buffer = r.append((*buffer)[:0])
	return value == string(*buffer)
}

// ReadRecord parses a record, without the checks of DecodeRecord.
func ReadRecord(value string) (Record, bool) {
	var r Record
	if r.read(value) {
		return r, true
	}
	return readJSON(value)
}

// DecodeRecord parses a record. It drops invalid fields and times before the node's creation, because a record that is
// copied from an earlier node of the same name must not release a node. A claim before the node's creation counts from
// the creation: the webhook makes it in the creating request, and the API server sets the creation time after that. Of
// times in the future, which another client has written, those that say that something has happened become now, so that
// the node stays in service. The others are dropped.
func DecodeRecord(value string, node *corev1.Node, now time.Time) (Record, bool) {
	r, ok := ReadRecord(value)
	if !ok {
		return Record{}, false
	}
	if _, claims := r.Claim(); !claims {
		r.Taint = ""
	}
	if !r.Since.IsZero() && r.Since.Time.Before(node.CreationTimestamp.Time) {
		r.Since = node.CreationTimestamp
	}
	latest, stamp := metav1.NewTime(now.Add(evidence.MaxClockSkew)), metav1.NewTime(now.Truncate(time.Second))
	for _, t := range []*metav1.Time{&r.Since, &r.Released, &r.RearmedAt} {
		if latest.Before(t) {
			*t = stamp
		}
	}
	for _, t := range []*metav1.Time{
		&r.Since, &r.Released, &r.TimedOut, &r.GuardedSince, &r.GuardEnded, &r.RearmedAt, &r.Former,
	} {
		if t.Before(&node.CreationTimestamp) || latest.Before(t) {
			*t = metav1.Time{}
		}
	}
	r.BootID = BootID(r.BootID)
	if r.Published != "" && !ruleset.Publishable(r.Published) {
		r.Published = ""
	}
	if r.Health != v1alpha1.HealthReady && r.Health != v1alpha1.HealthNotReady {
		r.Health = ""
	}
	// NotBefore is by kubelet's clock, which may be behind. A time in the past does no harm.
	if latest.Before(&r.NotBefore) {
		r.NotBefore = r.RearmedAt
	}
	return r, true
}

// maxBootID is the longest boot ID that a record keeps as it is. Linux's has 36 bytes.
const maxBootID = 64

// BootID returns a boot ID as records keep it. The API server accepts boot IDs of any length: a record that kept a very
// long one would not fit in the node's annotations. A record cannot keep text that is not UTF-8 either.
func BootID(id string) string {
	if len(id) <= maxBootID && utf8.ValidString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:16])
}

// FormatTaint formats a taint as key=value:effect.
func FormatTaint(t corev1.Taint) string { return t.Key + "=" + t.Value + ":" + string(t.Effect) }

// validTaints holds taints that parseTaint has accepted, by their text. Every pass of a node reads the taint of each
// record, and the check of a key by regular expressions would be a tenth of the pass.
var validTaints = lru.New(1024)

// ParseTaint parses key=value:effect or key:effect. It accepts only taints that a rule may have, so that a forged
// record cannot make the operator remove a taint of Kubernetes itself.
func ParseTaint(s string) (corev1.Taint, error) {
	if t, ok := validTaints.Get(s); ok {
		return t.(corev1.Taint), nil //nolint:errcheck // added below
	}
	s = strings.Clone(s) // it may be a part of a much longer annotation
	t, err := parseTaint(s)
	if err == nil {
		validTaints.Add(s, t)
	}
	return t, err
}

func parseTaint(s string) (corev1.Taint, error) {
	end := strings.LastIndexByte(s, ':')
	if end < 0 {
		return corev1.Taint{}, fmt.Errorf("taint %q: must be key=value:effect", s)
	}
	key, value, _ := strings.Cut(s[:end], "=")
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(s[end+1:])}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		return corev1.Taint{}, fmt.Errorf("taint %q: unknown effect %q", s, t.Effect)
	}
	if msg := ruleset.ValidateTaintKey(key); msg != "" {
		return corev1.Taint{}, fmt.Errorf("taint %q: key: %s", s, msg)
	}
	if msgs := validation.IsValidLabelValue(value); len(msgs) > 0 {
		return corev1.Taint{}, fmt.Errorf("taint %q: value: %s", s, strings.Join(msgs, "; "))
	}
	return t, nil
}

// Find returns the node's taint with the same key and effect, or nil.
func Find(node *corev1.Node, t *corev1.Taint) *corev1.Taint {
	if t == nil {
		return nil
	}
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].MatchTaint(t) {
			return &node.Spec.Taints[i]
		}
	}
	return nil
}

// Claim returns the taint that the record claims, or false if it claims none that a rule may have.
func (r *Record) Claim() (corev1.Taint, bool) {
	if r.Taint == "" {
		return corev1.Taint{}, false
	}
	t, err := ParseTaint(r.Taint)
	return t, err == nil
}

// ClaimIn returns the taint that an encoded record claims; see Claim.
func ClaimIn(record string) (corev1.Taint, bool) {
	r, _ := ReadRecord(record)
	return r.Claim()
}
