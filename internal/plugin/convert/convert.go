// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/nodegate/nodegate/api/v1alpha1"
)

// each stands, in a path, for the entries of a list.
const each = "[]"

// renamed are the fields of a rule's spec that had another name, by the path of the former name.
var renamed = []struct{ path, name string }{
	{"requirements.[].resource.minimum", "min"},
	{"requirements.[].devices.minimum", "min"},
	{"requirements.[].csiDriver.minimumAllocatable", "minAllocatable"},
	{"stabilization.minimumHoldSeconds", "minHoldSeconds"},
	{"health.checks.[].cacheSeconds", "periodSeconds"},
	{"health.checks.[].disk.minimumFreePercent", "minFreePercent"},
	{"health.checks.[].disk.minimumFreeInodesPercent", "minFreeInodesPercent"},
	{"health.checks.[].httpGet.headers", "httpHeaders"},
	{"probes.[].httpGet.headers", "httpHeaders"},
}

// specFields are the fields of a rule's spec. None of them had another name.
var specFields = reflect.VisibleFields(reflect.TypeFor[v1alpha1.NodeReadinessRuleSpec]())

// mergeTag is that of a key which merges the fields of another mapping.
const mergeTag = "!!merge"

// index is that of an entry of a list, in the path of a field.
var index = regexp.MustCompile(`\[\d+\]`)

// breaks finds lines with their ends, at each character at which the package yaml ends a line.
var breaks = regexp.MustCompile("[^\r\n\u0085\u2028\u2029]*(\r\n|[\r\n\u0085\u2028\u2029]|$)")

// Renamed returns the name that a field has now, by the path of its former name, such as
// spec.requirements[0].resource.minimum. It is empty if the field was not renamed.
func Renamed(path string) string {
	path = strings.TrimPrefix(index.ReplaceAllString(path, "."+each), "spec.")
	for _, r := range renamed {
		if r.path == path {
			return r.name
		}
	}
	return ""
}

// Result is a file after the conversion.
type Result struct {
	// Text is the file.
	Text []byte
	// Rules is how many rules it has.
	Rules int
	// Stream says that it has several documents in JSON with no separator between them. kubectl reads such a file, but
	// no other documents after them.
	Stream bool
	// Notes say what a person must look at, with the numbers of lines.
	Notes []string
}

// Text converts the rules of a file in YAML or JSON. It renames fields that have another name now, and moves the rules
// to an API group; an empty group leaves them where they are. Rules in the chart's values rules and nodeReadinessRules
// are rules, too, also in the values of a chart that depends on it. Everything else stays as it is.
func Text(text []byte, group string) (*Result, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the file is not in UTF-8: save it in this encoding")
	}
	c := &converter{group: group, lines: breaks.FindAllString(string(text), -1), edits: map[position]edit{},
		seen: map[*yaml.Node]bool{}}
	parts := documents(text)
	for _, p := range parts {
		c.start = p.start
		decoder := yaml.NewDecoder(bytes.NewReader(p.text))
		for {
			document := &yaml.Node{}
			if err := decoder.Decode(document); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			for _, root := range document.Content {
				c.object(root)
			}
		}
	}
	slices.Sort(c.notes)
	return &Result{Text: []byte(c.apply()), Rules: c.rules, Stream: len(parts) > 1, Notes: slices.Compact(c.notes)}, nil
}

// position is where a word of the file begins: its line and column, from 1 on.
type position struct{ line, column int }

// edit replaces a word.
type edit struct{ old, now string }

type converter struct {
	group string
	lines []string
	start position // of the part that is converted
	edits map[position]edit
	seen  map[*yaml.Node]bool // the objects that are converted: an alias may lead to one again
	rules int
	notes []string
}

func (c *converter) note(at *yaml.Node, format string, args ...any) {
	c.notes = append(c.notes, fmt.Sprintf("line %4d: ", c.position(at).line)+fmt.Sprintf(format, args...))
}

// position returns where in the file a word begins.
func (c *converter) position(n *yaml.Node) position {
	if n.Line > 1 {
		return position{c.start.line + n.Line - 1, n.Column}
	}
	return position{c.start.line, c.start.column + n.Column - 1}
}

// replace plans to replace a word, or the last part of it.
func (c *converter) replace(n *yaml.Node, old, now string) {
	if old != now {
		c.edits[c.position(n)] = edit{old, now}
	}
}

// object converts a document, or an item of a list.
func (c *converter) object(n *yaml.Node) {
	if n = resolve(n); c.seen[n] {
		return
	}
	c.seen[n] = true
	kind, version := scalar(n, "kind"), scalar(n, "apiVersion")
	from, _, _ := strings.Cut(version, "/")
	switch {
	case slices.Contains(v1alpha1.GroupNames(), from) && kind == "NodeReadinessRule":
		c.rule(n, from)
	case slices.Contains(v1alpha1.GroupNames(), from) && kind == "NodeReadinessRuleList", kind == "List":
		if kind != "List" {
			c.move(value(n, "apiVersion"), from)
		}
		for _, item := range items(value(n, "items")) {
			c.object(item)
		}
	case kind == "" && c.values(n):
	default:
		c.others(n)
	}
}

// values converts the rules in values of the chart, or of a chart that depends on it. It reports whether n has any.
func (c *converter) values(n *yaml.Node) (found bool) {
	for _, v := range append(fields(n), n) {
		list, byName := value(v, "nodeReadinessRules"), fields(value(v, "rules"))
		byName = slices.DeleteFunc(byName, func(rule *yaml.Node) bool { return !isSpec(value(rule, "spec")) })
		if list == nil && len(byName) == 0 {
			continue
		}
		found = true
		for _, rule := range items(list) {
			c.rules++
			c.spec(rule)
		}
		for _, rule := range byName {
			c.rules++
			c.spec(value(rule, "spec"))
		}
		if g := value(v, "apiGroup"); c.group != "" && (g == nil || g.Value != c.group) {
			c.note(v, "set apiGroup: %s in the values of the chart", c.group)
		}
	}
	return found
}

// isSpec reports whether a mapping has fields, and only such as a rule's spec has: charts of others have rules, too.
func isSpec(n *yaml.Node) bool {
	names := 0
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if n.Content[i].Tag != mergeTag && !slices.ContainsFunc(specFields, func(f reflect.StructField) bool {
			tagged, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tagged == name
		}) {
			return false
		}
		names++
	}
	return names > 0
}

// rule converts a rule of an API group.
func (c *converter) rule(n *yaml.Node, from string) {
	c.rules++
	c.move(value(n, "apiVersion"), from)
	metadata := value(n, "metadata")
	for _, name := range []string{"finalizers", "resourceVersion", "uid"} {
		if k := key(metadata, name); k != nil {
			c.note(k, "metadata.%s is of the object in the cluster: remove it before you apply the file", name)
		}
	}
	if k := key(value(metadata, "annotations"), v1alpha1.SuccessorAnnotation); k != nil {
		c.note(k, "the annotation %s is of the object in the cluster: remove it before you apply the file",
			v1alpha1.SuccessorAnnotation)
	}
	for _, f := range items(value(metadata, "finalizers")) {
		if c.group != "" && slices.ContainsFunc(v1alpha1.GroupNames(), func(group string) bool {
			return f.Value == v1alpha1.FinalizerIn(group)
		}) {
			c.replace(f, f.Value, v1alpha1.FinalizerIn(c.group)) // in its new group, no controller would remove it
		}
	}
	c.spec(value(n, "spec"))
}

// move moves an apiVersion to the group.
func (c *converter) move(n *yaml.Node, from string) {
	if c.group != "" {
		c.replace(n, from, c.group)
	}
}

// spec renames fields of a rule's spec, and notes a value that has another meaning now.
func (c *converter) spec(n *yaml.Node) {
	for _, r := range items(value(n, "requirements")) {
		if seconds := value(value(r, "pods"), "minReadySeconds"); seconds != nil && seconds.Value == "0" {
			c.note(seconds, "pods.minReadySeconds: 0 was ignored. Now a pod without a readiness probe counts at once, not "+
				"after 10 seconds; without the field, it is 10 seconds")
		}
	}
	for _, r := range renamed {
		c.rename(n, strings.Split(r.path, "."), r.name)
	}
}

// rename renames the field at the end of a path.
func (c *converter) rename(n *yaml.Node, path []string, name string) {
	switch {
	case path[0] == each:
		for _, item := range items(n) {
			c.rename(item, path[1:], name)
		}
	case len(path) > 1:
		c.rename(value(n, path[0]), path[1:], name)
	default:
		old := key(n, path[0])
		switch {
		case old == nil:
		case key(n, name) != nil:
			c.note(old, "%s and %s are the same field: remove one of them", old.Value, name)
		default:
			c.replace(old, old.Value, name)
		}
	}
}

// others notes each word of another object that names the group which the rules leave.
func (c *converter) others(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && c.group != "" {
		for _, group := range v1alpha1.GroupNames() {
			if group != c.group && strings.Contains(n.Value, group) {
				c.note(n, "%s is not converted: if it is about Nodegate's rules, the group is %s now", group, c.group)
			}
		}
	}
	for _, inner := range n.Content {
		c.others(inner)
	}
}

// apply returns the text with all edits. A word may be in quotes, or have an anchor or a tag before it.
func (c *converter) apply() string {
	places := make([]position, 0, len(c.edits))
	for p := range c.edits {
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b position) int {
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(b.column, a.column)) // from the end of a line
	})
	for _, p := range places {
		e, before, after := c.edits[p], "", ""
		if p.line <= len(c.lines) {
			line := []rune(c.lines[p.line-1])
			column := min(p.column-1, len(line))
			before, after = string(line[:column]), string(line[column:])
		}
		if !strings.Contains(after, e.old) {
			c.notes = append(c.notes, fmt.Sprintf("line %4d: replace %s by %s", p.line, e.old, e.now))
			continue
		}
		c.lines[p.line-1] = before + strings.Replace(after, e.old, e.now, 1)
	}
	return strings.Join(c.lines, "")
}

// resolve follows an alias to what it stands for.
func resolve(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// key returns the key of a field of a mapping, or nil if there is none.
func key(n *yaml.Node, name string) *yaml.Node { k, _ := field(n, name); return k }

// value returns the value of a field of a mapping, or nil if there is none.
func value(n *yaml.Node, name string) *yaml.Node { _, v := field(n, name); return resolve(v) }

// field returns a field of a mapping, also one that it merges from others ("<<").
func field(n *yaml.Node, name string) (k, v *yaml.Node) {
	return merged(n, name, map[*yaml.Node]bool{})
}

// merged looks for a field in each mapping once: they may merge each other in a circle.
func merged(n *yaml.Node, name string, seen map[*yaml.Node]bool) (k, v *yaml.Node) {
	if n = resolve(n); n == nil || n.Kind != yaml.MappingNode || seen[n] {
		return nil, nil
	}
	seen[n] = true
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i], n.Content[i+1]
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Tag != mergeTag {
			continue
		}
		for _, from := range append(items(n.Content[i+1]), n.Content[i+1]) {
			if k, v := merged(from, name, seen); k != nil {
				return k, v
			}
		}
	}
	return nil, nil
}

// fields returns the values of a mapping.
func fields(n *yaml.Node) (out []*yaml.Node) {
	if n = resolve(n); n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 1; i < len(n.Content); i += 2 {
		out = append(out, resolve(n.Content[i]))
	}
	return out
}

func scalar(n *yaml.Node, name string) string {
	if v := value(n, name); v != nil && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}

// items returns the entries of a list.
func items(n *yaml.Node) []*yaml.Node {
	if n = resolve(n); n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	out := make([]*yaml.Node, len(n.Content))
	for i := range n.Content {
		out[i] = resolve(n.Content[i])
	}
	return out
}
