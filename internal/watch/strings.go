// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package watch

// sharedStrings has one copy of each string that was cached lately. It keeps at least the last maxShared distinct
// strings, and at most twice as many: when young is full, it becomes old, and what is not used again goes with it.
// Package unique does not do, since it forgets a string at the next garbage collection unless its handle is kept. Long
// strings are not kept: a reporter with a new message in each heartbeat could fill the memory with them. It is not safe
// for concurrent use.
type sharedStrings struct {
	young, old map[string]string
}

// maxShared is a number of strings, maxSharedBytes the length of the longest one.
const maxShared, maxSharedBytes = 1 << 15, 512

func (s *sharedStrings) get(v []byte) string {
	if len(v) == 0 || len(v) > maxSharedBytes {
		return string(v)
	}
	if kept, ok := s.young[string(v)]; ok {
		return kept
	}
	kept, ok := s.old[string(v)]
	if !ok {
		kept = string(v)
	}
	if s.young == nil || len(s.young) >= maxShared {
		s.young, s.old = map[string]string{}, s.young
	}
	s.young[kept] = kept
	return kept
}
