// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation plays random stories against the real reconcilers, in memory and in virtual time, and judges
// them by a model that is written from the documentation. "make simulate" runs many.
package simulation

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/yaml"

	"github.com/nodegate/nodegate/config/crd"
	"github.com/nodegate/nodegate/test/simulation/api"
	"github.com/nodegate/nodegate/test/simulation/model"
	"github.com/nodegate/nodegate/test/simulation/replica"
	"github.com/nodegate/nodegate/test/simulation/script"
	"github.com/nodegate/nodegate/test/simulation/world"
)

var (
	first  = flag.Uint64("first", 1, "the first seed")
	seeds  = flag.Uint64("seeds", usual, "how many seeds")
	policy = flag.String("policy", "", "a file of config, and another one that is read instead: a=b")
	most   = flag.Int("failures", 1, "after how many failures to stop")
	shrink = flag.Int("shrink", 3000, "how many stories to play to find a shorter one that fails in the same way")
	kept   = flag.String("scripts", "testdata", "the directory of the scripts that are kept")
	steps  = flag.Int("steps", 200, "how many steps a story has")

	trace = flag.Bool("trace", false, "print each step, and each write of the operator, of the scripts that are kept")

	workers = flag.Int("workers", 2, "how many stories to play at a time; with 1, the first that fails is always the same")
)

// Samples for a profile of the memory cost two percent of a story. With -memprofilerate there are some. Stories keep
// little in memory, and leave much behind.
func init() {
	runtime.MemProfileRate = 0
	debug.SetGCPercent(1600)
	retry.DefaultBackoff.Duration = 0 // stories do not wait in real time
}

// large is how many stories are enough for every predicate to be decisive.
const large = 2000

// several is how many stories are enough for every fault.
const several = 500

// definitions are our CRD, and one that lacks some of its fields.
func definitions(t testing.TB) world.Definitions {
	t.Helper()
	ours, err := crd.Load()
	if err != nil {
		t.Fatal(err)
	}
	out := world.Definitions{CRDs: map[string]*api.Definition{}}
	for _, name := range []string{"ours", "foreign"} {
		d := ours.DeepCopy()
		if name == "foreign" {
			d.Labels = map[string]string{replica.ForeignLabel: "true"}
			properties := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
			for _, field := range []string{"requirements", "maxUnavailable", "limits", "existingNodes", "timeout", "rearmOn",
				"stabilization"} {
				delete(properties, field)
			}
		}
		if out.CRDs[name], err = api.Define(d); err != nil {
			t.Fatal(err)
		}
	}
	records, annotations := &admissionregistrationv1.ValidatingAdmissionPolicy{},
		&admissionregistrationv1.ValidatingAdmissionPolicy{}
	manifest(t, "components/record-guard/policy.yaml", records,
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}, annotations)
	policy, binding := &admissionregistrationv1.MutatingAdmissionPolicy{},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	manifest(t, "node-admission-policy/policy.yaml", policy, binding)
	if out.Admission, err = api.ReadMutating(policy, binding); err != nil {
		t.Fatal(err)
	}
	policy, binding = &admissionregistrationv1.MutatingAdmissionPolicy{},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{}
	manifest(t, "endpoint-policy/policy.yaml", policy, binding)
	if out.Endpoints, err = api.ReadMutating(policy, binding); err != nil {
		t.Fatal(err)
	}
	if out.Records, err = api.ReadPolicy(records); err != nil {
		t.Fatal(err)
	}
	if out.Annotations, err = api.ReadPolicy(annotations); err != nil {
		t.Fatal(err)
	}
	return out
}

// manifest reads the first documents of a file of config.
func manifest(t testing.TB, file string, into ...any) {
	t.Helper()
	path := filepath.Join("..", "..", "config", file)
	if of, other, _ := strings.Cut(*policy, "="); of == file {
		path = other
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, document := range bytes.SplitN(raw, []byte("\n---\n"), len(into)+1)[:len(into)] {
		if err := yaml.Unmarshal(document, into[i]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStories plays the stories of seeds.
func TestStories(t *testing.T) {
	served := definitions(t)
	var mu sync.Mutex
	var wait sync.WaitGroup
	var failures atomic.Int64
	fields := map[string]int{}
	next, decisive, met, writes, played := *first, map[string]int{}, map[string]world.Met{}, 0, 0
	digests := make([]uint64, *seeds) // by seed: equal ones before and after a change show that no write is another one
	began, before := time.Now(), cpu(t)
	for range *workers {
		wait.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if seed >= *first+*seeds || failures.Load() >= int64(*most) {
					return
				}
				s := script.Generate(seed, *steps)
				result := world.Play(s, served)
				mu.Lock()
				for name, n := range result.Decisive {
					decisive[name] += n
				}
				for name, n := range result.Faults {
					met[name] = world.Met{Requests: met[name].Requests + n.Requests, Patches: met[name].Patches + n.Patches}
				}
				for name := range result.Fields {
					fields[name]++
				}
				writes += result.Writes
				digests[seed-*first] = result.Digest
				played++
				mu.Unlock()
				switch {
				case result.Failure == "":
				case failures.Add(1) <= int64(*most):
					report(t, seed, s, result, served)
				}
			}
		})
	}
	wait.Wait()
	used := cpu(t) - before
	t.Logf("%d stories, %.0f a second, %.0f for each second of CPU time; %d writes, digest %x",
		played, float64(played)/time.Since(began).Seconds(), float64(played)/used.Seconds(), writes,
		sha256.Sum256(fmt.Append(nil, digests)))
	for _, name := range slices.Sorted(maps.Keys(decisive)) {
		t.Logf("%-12s %d decisive", name, decisive[name])
	}
	for _, name := range slices.Sorted(maps.Keys(world.Faults)) {
		n, patches := met[name], world.Faults[name]
		t.Logf("%5d requests, %5d patches of nodes: %s", n.Requests, n.Patches, name)
		if played >= several && (n.Requests < 20 || patches && n.Patches < 10) {
			t.Errorf("of %d stories, %d requests and %d patches of nodes met: %s", played, n.Requests, n.Patches, name)
		}
	}
	if played >= several {
		checkFields(t, fields, played)
	}
	if played < large {
		return
	}
	for _, name := range model.Predicates {
		if decisive[name] == 0 {
			t.Errorf("predicate %s was never decisive in %d stories", name, played)
		}
	}
}

// ungenerated are fields below which stories need none.
var ungenerated = map[string]string{
	"spec.health.checks":   "only the node agent acts on them",
	"spec.probes":          "only the node agent acts on them",
	"spec.taint.timeAdded": "the API server writes it",
}

// checkFields looks whether each field, and each value of an enum, of the CRD was in force in enough stories.
func checkFields(t *testing.T, fields map[string]int, stories int) {
	t.Helper()
	d, err := crd.Load()
	if err != nil {
		t.Fatal(err)
	}
	var walk func(path string, s *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if ungenerated[path] != "" {
			return
		}
		if fields[path] < 5*stories/several {
			t.Errorf("of %d stories, %d have %s in force", stories, fields[path], path)
		}
		for _, value := range s.Enum {
			name := path + "=" + strings.Trim(string(value.Raw), `"`)
			if fields[name] < 5*stories/several {
				t.Errorf("of %d stories, %d have %s in force", stories, fields[name], name)
			}
		}
		for name, of := range s.Properties {
			walk(path+"."+name, &of)
		}
		if s.Items != nil {
			for name, of := range s.Items.Schema.Properties {
				walk(path+"."+name, &of)
			}
		}
	}
	spec := d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	walk("spec", &spec)
	for _, name := range []string{"spec.taint=none", "an outage", "a node alone"} {
		if fields[name] < 5*stories/several {
			t.Errorf("of %d stories, %d have this: %s", stories, fields[name], name)
		}
	}
}

// TestStarts plays stories one after the other, and looks whether the operator has counted a start of a node twice.
func TestStarts(t *testing.T) {
	served, counted := definitions(t), 0
	replica.Starts()
	for seed := *first; seed < *first+*seeds/10; seed++ {
		result := world.Play(script.Generate(seed, *steps), served)
		starts := replica.Starts()
		for rule, most := range result.Starts {
			counted += starts[rule]
			if starts[rule] > most {
				t.Fatalf("seed %d: starts: %d are counted for rule %s, and %d have ended", seed, starts[rule], rule, most)
			}
		}
	}
	if counted == 0 {
		t.Error("no start is counted")
	}
}

// TestScripts plays the scripts of faults that were found, twice: both runs must write the same.
func TestScripts(t *testing.T) {
	served := definitions(t)
	files, err := filepath.Glob(filepath.Join(*kept, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := &script.Script{}
			if err := json.Unmarshal(raw, s); err != nil {
				t.Fatal(err)
			}
			again := world.Play(s, served)
			if *trace {
				served.Trace = func(line string) { t.Log(line) }
			}
			result := world.Play(s, served)
			if result.Digest != again.Digest || result.Failure != again.Failure {
				t.Errorf("two runs differ: %s and %s", result.Failure, again.Failure)
			}
			if result.Failure != "" {
				t.Errorf("%s\n%s\n%s", result.Failure, s.Why, s)
			}
			t.Log(result.Decisive)
		})
	}
}

// cpu is the CPU time that this process has used.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report prints the shortest story that fails in the same way, and keeps it.
func report(t *testing.T, seed uint64, s *script.Script, result world.Result, served world.Definitions) {
	t.Helper()
	predicate := world.Predicate(result.Failure)
	short := script.Shrink(s, *shrink, func(s *script.Script) bool {
		return world.Predicate(world.Play(s, served).Failure) == predicate
	})
	failure := world.Play(short, served).Failure
	short.Why = failure
	raw, err := json.MarshalIndent(short, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.ArtifactDir(), fmt.Sprintf("story-%d.json", seed))
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Errorf("seed %d: %s\n%sThe story is in %s: keep it in testdata.", seed, failure, short, file)
}
