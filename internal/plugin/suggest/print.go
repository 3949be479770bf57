// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/internal/text"
)

// stored is a rule without a status.
func (r *Rule) stored() map[string]any {
	o := r.Object()
	return map[string]any{"apiVersion": o.APIVersion, "kind": o.Kind, "metadata": map[string]any{"name": o.Name},
		"spec": o.Spec}
}

// JSON returns the rules that can be applied as a List.
func (s *Suggestions) JSON() (string, error) {
	items := []any{}
	for _, r := range s.Rules {
		if len(r.Problems) == 0 {
			items = append(items, r.stored())
		}
	}
	out, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "    ")
	return string(out) + "\n", err
}

// YAML returns the rules with comments. Rules with problems come last, and are comments as a whole.
func (s *Suggestions) YAML() (string, error) {
	var live, commented []string
	for _, r := range s.Rules {
		text, err := r.yaml()
		if err != nil {
			return "", err
		}
		if len(r.Problems) == 0 {
			live = append(live, text)
		} else {
			commented = append(commented, comment(text))
		}
	}
	if len(live) > 0 {
		commented = slices.Insert(commented, 0, strings.Join(live, "---\n"))
	}
	return strings.Join(commented, "\n"), nil
}

// Summary returns a line about each rule.
func (s *Suggestions) Summary() (out []string) {
	for _, r := range s.Rules {
		line := fmt.Sprintf("rule %s: %s", r.Name, r.effect())
		if len(r.Problems) > 0 {
			line += "; it is left out: " + strings.Join(r.Problems, "; ")
		}
		out = append(out, line)
	}
	return out
}

func (r *Rule) effect() string {
	if r.Unread {
		return fmt.Sprintf("selects %s; how many of them it would hold now is not known", nodes(r.Selected))
	}
	if len(r.Held) == 0 {
		return fmt.Sprintf("selects %s and would hold none of them now", nodes(r.Selected))
	}
	return fmt.Sprintf("selects %s and would hold %d of them now (%s), if it were enforced for existing nodes, too",
		nodes(r.Selected), len(r.Held), text.Few(r.Held, 3, len(r.Held)))
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

func (r *Rule) yaml() (string, error) {
	raw, err := yaml.Marshal(r.stored())
	if err != nil {
		return "", err
	}
	head := append(slices.Clip(r.Why), "The rule "+r.effect()+".")
	if len(r.Problems) == 0 {
		head = append(head, "A new node can be released: the DaemonSets tolerate the taint and run on all selected nodes.")
	}
	for _, p := range r.Problems {
		head = append(head, "Not ready to apply: "+p+".")
	}
	if len(r.Tolerate) > 0 {
		head = append(head, "Add this toleration to DaemonSet "+strings.Join(r.Tolerate, " and ")+", and run suggest again:",
			"tolerations:", fmt.Sprintf("- {key: %s, operator: Exists, effect: %s}", r.Spec.Taint.Key, r.Spec.Taint.Effect))
	}
	above := map[string]string{
		"  dryRun:": "In dry-run, the rule changes no node. Remove this line when kubectl nodegate status counts all " +
			"healthy nodes as READY.",
		"  enforcementMode:": "The rule holds a node until it is ready for the first time. To hold nodes again when the " +
			"evidence\nfails, use continuous and maxUnavailable: " + r.Limit.String() + " or more: a rollout of the DaemonSet " +
			"needs that.",
		"  existingNodes:": "The rule does not hold the nodes that exist today.",
		"  timeout:":       "No node is held for longer than half an hour.",
	}
	var out strings.Builder
	out.WriteString(comment(strings.Join(head, "\n") + "\n"))
	for line := range strings.Lines(string(raw)) {
		for field, text := range above {
			if strings.HasPrefix(line, field) {
				for part := range strings.Lines(comment(text + "\n")) {
					out.WriteString("  " + part)
				}
			}
		}
		out.WriteString(line)
	}
	return out.String(), nil
}

// comment makes each line of a text a comment.
func comment(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("# " + line)
	}
	return out.String()
}
