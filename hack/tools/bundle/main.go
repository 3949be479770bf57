// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Bundle writes a bundle for the Operator Lifecycle Manager (registry+v1) from the manifests on its standard input: the
// Deployment and what its ServiceAccount may do become a ClusterServiceVersion, all other objects a file each. The
// format is that of https://olm.operatorframework.io/docs/tasks/creating-operator-bundle/.
//
//	kustomize build config/olm | go run ./bundle -version v0.1.0 -base csv.yaml -out bundle rule.yaml...
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// object is a Kubernetes object.
type object map[string]any

func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, field := range path {
		m, _ := v.(map[string]any)
		v = m[field]
	}
	return v
}

func (o object) text(path ...string) string {
	s, _ := o.at(path...).(string)
	return s
}

// annotations are the bundle's, which tell OLM where its parts are.
const annotations = `annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: nodegate
  operators.operatorframework.io.bundle.channels.v1: stable
  operators.operatorframework.io.bundle.channel.default.v1: stable
`

// described is what the catalog says of each CRD, by kind.
var described = map[string]object{
	"NodeReadinessRule": {"displayName": "Node readiness rule", "description": "What ready means for a set of nodes."},
	"AdmissionRules": {"displayName": "Rules for admission", "description": "Which nodes get a taint at creation. " +
		"Written by the operator only."},
}

func main() {
	version := flag.String("version", "", "`version` of the operator, such as v0.1.0")
	base := flag.String("base", "", "`file` with the ClusterServiceVersion's descriptions")
	out := flag.String("out", "", "`directory` to write")
	flag.Parse()
	if err := run(os.Stdin, *version, *base, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, version, base, out string, samples []string) error {
	if version == "" || base == "" || out == "" {
		return errors.New("-version, -base and -out are needed")
	}
	manifests, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	objects, err := parse(manifests)
	if err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	csv, err := read(base)
	if err != nil {
		return err
	}
	var examples []object
	for _, file := range samples {
		rules, err := read(file)
		if err != nil {
			return err
		}
		examples = append(examples, rules...)
	}
	files, err := build(csv[0], objects, examples, strings.TrimPrefix(version, "v"))
	if err != nil {
		return err
	}
	files["metadata/annotations.yaml"] = []byte(annotations)
	for name, content := range files {
		file := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func read(file string) ([]object, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	objects, err := parse(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return objects, nil
}

func parse(content []byte) (objects []object, err error) {
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		o := object{}
		if err := yaml.Unmarshal(document, &o); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// build returns the files below the bundle's directory.
func build(csv object, objects, examples []object, version string) (map[string][]byte, error) {
	files := map[string][]byte{}
	var deployments, permissions, clusterPermissions, owned []any
	rules, bound := map[string]any{}, map[string]bool{} // by the role's kind and name
	for _, o := range objects {
		rules[o.text("kind")+"/"+o.text("metadata", "name")] = o["rules"]
		bound[o.text("roleRef", "kind")+"/"+o.text("roleRef", "name")] = true
	}
	spec := csv["spec"].(map[string]any)
	for _, o := range objects {
		name := o.text("metadata", "name")
		switch kind := o.text("kind"); kind {
		case "Namespace", "ServiceAccount": // OLM creates them
			continue
		case "Deployment":
			deployments = append(deployments, object{"name": name, "label": o.at("metadata", "labels"), "spec": o["spec"]})
			image := o.at("spec", "template", "spec", "containers").([]any)[0].(map[string]any)["image"]
			csv["metadata"].(map[string]any)["annotations"].(map[string]any)["containerImage"] = image
			spec["relatedImages"] = []any{object{"name": "nodegate", "image": image}}
			continue
		case "RoleBinding", "ClusterRoleBinding":
			account := o.at("subjects").([]any)[0].(map[string]any)["name"]
			role := o.text("roleRef", "kind") + "/" + o.text("roleRef", "name")
			granted := object{"serviceAccountName": account, "rules": rules[role]}
			if rules[role] == nil {
				return nil, fmt.Errorf("%s %s: there is no %s", kind, name, role)
			}
			if kind == "RoleBinding" {
				permissions = append(permissions, granted)
			} else {
				clusterPermissions = append(clusterPermissions, granted)
			}
			continue
		case "CustomResourceDefinition":
			crd := object{"name": name, "kind": o.at("spec", "names", "kind"), "version": "v1alpha1"}
			maps.Copy(crd, described[o.text("spec", "names", "kind")])
			owned = append(owned, crd)
			for _, example := range examples {
				if example["kind"] == crd["kind"] {
					example["apiVersion"] = o.text("spec", "group") + "/v1alpha1"
				}
			}
		case "Role", "ClusterRole":
			if bound[kind+"/"+name] { // OLM creates it from the permissions
				continue
			}
		}
		delete(o["metadata"].(map[string]any), "namespace")
		content, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		files[fmt.Sprintf("manifests/%s_%s.yaml", name, strings.ToLower(o.text("kind")))] = content
	}
	samples, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		return nil, err
	}
	csv["metadata"].(map[string]any)["name"] = "nodegate.v" + version
	csv["metadata"].(map[string]any)["annotations"].(map[string]any)["alm-examples"] = string(samples)
	spec["version"] = version
	spec["customresourcedefinitions"] = object{"owned": owned}
	spec["install"] = object{"strategy": "deployment", "spec": object{
		"deployments": deployments, "permissions": permissions, "clusterPermissions": clusterPermissions}}
	files["manifests/nodegate.clusterserviceversion.yaml"], err = yaml.Marshal(csv)
	return files, err
}
