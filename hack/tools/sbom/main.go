// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Sbom writes the software bill of materials of Go binaries as CycloneDX 1.6: the modules that the linker recorded in
// each of them. The same binary gives the same bytes, so the document has neither a time nor a serial number.
//
//	go run ./sbom -version v0.1.0 -out agent.cdx.json dist/linux_amd64/agent
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "`version` of the binary")
	out := flag.String("out", "", "`file` to write")
	flag.Parse()
	if err := run(*version, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(version, out string, binaries []string) error {
	if version == "" || out == "" || len(binaries) != 1 {
		return errors.New("-version, -out and one binary are needed")
	}
	bom, err := describe(binaries[0], version)
	if err != nil {
		return fmt.Errorf("describing %s: %w", binaries[0], err)
	}
	file, err := os.Create(out)
	if err != nil {
		return err
	}
	encode := cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return errors.Join(encode, file.Close())
}

// describe returns the bill of materials of one binary.
func describe(path, version string) (*cdx.BOM, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	main := module(&debug.Module{Path: info.Main.Path, Version: version})
	main.Type, main.Name = cdx.ComponentTypeApplication, filepath.Base(path)
	main.PackageURL += "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/")
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}

	components := []cdx.Component{module(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		components = append(components, module(dep))
	}
	refs := make([]string, len(components))
	for i := range components {
		refs[i] = components[i].BOMRef
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return bom, nil
}

// module returns a Go module as a component. The package URL follows https://github.com/package-url/purl-spec, type golang.
func module(m *debug.Module) cdx.Component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	return cdx.Component{
		BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url,
	}
}
