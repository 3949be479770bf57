// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/script"
)

// earlier are the fields of records, in their order, before limits counted by failure domain. That was the last change
// of the format.
var earlier = []string{"rule", "taint", "since", "own", "late", "adopted", "limited", "forced", "existing", "released",
	"found", "timedOut", "passed", "bootID", "notBefore", "rearmedAt", "former", "starting", "guardedSince", "guardEnded",
	"published", "health", "missed", "counted", "mark", "handed"}

// upgrade ends all replicas, and starts them again. In the meantime another version of the operator has written all
// records: the one before, or a later one that is rolled back.
func (w *World) upgrade(from string) {
	for _, r := range w.replicas {
		r.Kill()
	}
	for n := 1; n <= script.MaxNodes; n++ {
		w.change(n, "operator", "", func(node *corev1.Node) {
			for key, record := range node.Annotations {
				if strings.HasPrefix(key, recordKey) {
					node.Annotations[key] = writtenBy(from, record)
				}
			}
		})
		w.Model.Upgraded(document(w.server.Get(api.Nodes, nodeName(n))))
	}
	for _, r := range w.replicas {
		r.Start()
	}
}

// writtenBy returns a record as another version writes it. A later one has a field that this one does not know, and
// another order. A record that someone has made unreadable stays.
func writtenBy(version, record string) string {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(record), &fields); err != nil {
		return record
	}
	keys := earlier
	if version == "later" {
		fields["later"] = json.RawMessage(`{"than":"this"}`)
		keys = slices.Sorted(maps.Keys(fields))
	}
	var parts []string
	for _, key := range keys {
		if value, there := fields[key]; there {
			parts = append(parts, fmt.Sprintf("%q:%s", key, value))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}
