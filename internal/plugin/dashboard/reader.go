// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

// Reader reads what has changed since it read last.
type Reader struct {
	live  *Live
	group string
	seen  uint64
}

// Reader returns a reader that groups nodes by a label.
func (l *Live) Reader(group string) *Reader { return &Reader{live: l, group: group} }

// maxTouched is how many nodes are named of which something has changed that is not in a Node.
const maxTouched = 500

// Next returns what has changed, and a channel that is closed when something changes again.
func (r *Reader) Next() (*Message, <-chan struct{}) {
	l := r.live
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &Message{Whole: r.seen == 0}
	if r.seen < l.version {
		for _, row := range l.rows {
			if row.version <= r.seen {
				if row.touched > r.seen && len(m.Touched) < maxTouched {
					m.Touched = append(m.Touched, row.Name)
				}
				continue
			}
			if row.gone {
				if !m.Whole {
					m.Gone = append(m.Gone, row.Name)
				}
				continue
			}
			n := *row.Node
			n.Group = row.labels[r.group]
			m.Nodes = append(m.Nodes, n)
		}
	}
	if l.viewed > r.seen {
		m.Fleet = l.view
	}
	r.seen = l.version
	return m, l.changed
}
