// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Image writes a container image of static binaries, without docker and without a registry: as a tar that docker, podman
// and containerd load, or for several architectures as an OCI layout, whose digest it prints. The same binaries give the
// same bytes.
//
//	go run ./image -tag nodegate:dev -out nodegate.tar -arch amd64 -label key=value bin/agent bin/manager
//	go run ./image -tag nodegate:v1 -layout dist/oci -arch amd64,arm64 dist/linux_{arch}/agent dist/linux_{arch}/manager
//
// Each binary becomes a file in the root directory of the one layer; the first one is the entrypoint.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nonroot is the user and the group that distroless images call so.
const nonroot = "65532:65532"

// users and groups are what a program that looks itself up finds.
const (
	users  = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	groups = "root:x:0:\nnonroot:x:65532:\n"
)

// epoch is the time of all that has one.
var epoch = time.Unix(0, 0).UTC()

type labels map[string]string

func (l labels) String() string { return "" }

func (l labels) Set(text string) error {
	key, value, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("must be key=value")
	}
	l[key] = value
	return nil
}

// options are the command line.
type options struct {
	tag, out, layout string
	arches           []string
	labels           labels
	binaries         []string
}

func main() {
	o := options{labels: labels{}}
	flag.StringVar(&o.tag, "tag", "", "`name` of the image, such as nodegate:dev")
	flag.StringVar(&o.out, "out", "", "tar `file` to write, for one architecture")
	flag.StringVar(&o.layout, "layout", "", "`directory` to write an OCI layout to; its digest is printed")
	arches := flag.String("arch", "amd64", "`architectures`, separated by commas; {arch} in a path stands for each")
	flag.Var(o.labels, "label", "a label as `key=value`; may be repeated")
	flag.Parse()
	o.arches, o.binaries = strings.Split(*arches, ","), flag.Args()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func (o *options) run() error {
	if (o.out == "") == (o.layout == "") || len(o.binaries) == 0 {
		return errors.New("either -out or -layout, and at least one binary, are needed")
	}
	ref, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("-tag: %w", err)
	}
	if o.layout != "" {
		return o.writeLayout(ref)
	}
	if len(o.arches) != 1 {
		return errors.New("a tar holds one architecture: use -layout for several")
	}
	image, err := o.image(o.arches[0])
	if err != nil {
		return err
	}
	// Under another name first, so that an interrupted run leaves no half-written file.
	if err := tarball.WriteToFile(o.out+".partial", ref, image); err != nil {
		return err
	}
	return os.Rename(o.out+".partial", o.out)
}

// writeLayout writes an OCI layout with one index of all architectures, and prints the digest of that index.
func (o *options) writeLayout(ref name.Tag) error {
	var images []mutate.IndexAddendum
	for _, arch := range o.arches {
		image, err := o.image(arch)
		if err != nil {
			return err
		}
		platform := &v1.Platform{OS: "linux", Architecture: arch}
		images = append(images, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index := mutate.AppendManifests(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), images...)
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	path, err := layout.Write(o.layout, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": ref.String()})
	if err := path.AppendIndex(index, named); err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// image returns the image for one architecture.
func (o *options) image(arch string) (v1.Image, error) {
	content, err := layer(o.binaries, arch)
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	l, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.AppendLayers(base, l)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: epoch}
	config.Config = v1.Config{
		User: nonroot, WorkingDir: "/", Labels: o.labels,
		Entrypoint: []string{"/" + filepath.Base(o.binaries[0])},
		Env:        []string{"PATH=/"},
	}
	return mutate.ConfigFile(image, config)
}

// layer returns the tar of the image's files for one architecture.
func layer(binaries []string, arch string) ([]byte, error) {
	buffer := &bytes.Buffer{}
	w := tar.NewWriter(buffer)
	add := func(h *tar.Header, content []byte) error {
		h.Size, h.ModTime, h.Format = int64(len(content)), epoch, tar.FormatPAX
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(content)
		return err
	}
	err := errors.Join(
		add(&tar.Header{Typeflag: tar.TypeDir, Name: "etc/", Mode: 0o755}, nil),
		add(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte(users)),
		add(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte(groups)),
		add(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil),
	)
	for _, binary := range binaries {
		content, readErr := os.ReadFile(strings.ReplaceAll(binary, "{arch}", arch))
		if readErr != nil {
			return nil, readErr
		}
		err = errors.Join(err, add(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(binary), Mode: 0o755}, content))
	}
	err = errors.Join(err, w.Close()) // it writes the end of the archive
	return buffer.Bytes(), err
}
