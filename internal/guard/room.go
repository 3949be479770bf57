// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	endpointsv1alpha1 "github.com/nodegate/nodegate/api/endpoints/v1alpha1"
)

// maxEndpointsBytes leaves a reserve: etcd refuses objects of more than 1.5 MiB by default.
const maxEndpointsBytes = 1_400_000

// Room is the room that the object KeptEndpoints has for more rules and nodes. Each node counts with its longest state,
// which is Kept: if the object became too large in an outage, it could not be written, and nothing would end. nil is
// room for all.
type Room struct{ rules, bytes int }

// RoomIn returns the room that is left in an object.
func RoomIn(stored []endpointsv1alpha1.EndpointRule) *Room {
	room := &Room{rules: endpointsv1alpha1.MaxRules - len(stored), bytes: maxEndpointsBytes}
	for i := range stored {
		room.bytes -= sizeOfRule(stored[i].Name)
		for node := range stored[i].Nodes {
			room.bytes -= sizeOfNode(node)
		}
	}
	return room
}

func sizeOfRule(name string) int { return len(name) + 150 }

func sizeOfNode(name string) int { return len(name) + len(`"":"2006-01-02T15:04:05Z",`) }

// addRule takes room for a rule, and reports whether there was some.
func (r *Room) addRule(name string) bool {
	if r == nil {
		return true
	}
	if r.rules <= 0 || r.bytes < sizeOfRule(name) {
		return false
	}
	r.rules--
	r.bytes -= sizeOfRule(name)
	return true
}

// addNode takes room for a node of a rule that has so many, and reports whether there was some.
func (r *Room) addNode(name string, others int) bool {
	if r == nil {
		return true
	}
	if others >= endpointsv1alpha1.MaxNodes || r.bytes < sizeOfNode(name) {
		return false
	}
	r.bytes -= sizeOfNode(name)
	return true
}
