// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Image writes a container image of static binaries as a tar that docker, podman and containerd load, without docker
// and without a registry. The same binaries give the same tar, byte for byte.
//
//	go run ./image -tag nodegate:dev -out nodegate.tar -arch amd64 -label key=value bin/manager bin/agent
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
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
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

func main() {
	tag := flag.String("tag", "", "`name` of the image, such as nodegate:dev")
	out := flag.String("out", "", "`file` to write")
	arch := flag.String("arch", "amd64", "`architecture` that the binaries are for")
	all := labels{}
	flag.Var(all, "label", "a label as `key=value`; may be repeated")
	flag.Parse()
	if err := build(*tag, *out, *arch, all, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func build(tag, out, arch string, all labels, binaries []string) error {
	if out == "" || len(binaries) == 0 {
		return errors.New("-out and at least one binary are needed")
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("-tag: %w", err)
	}
	content, err := layer(binaries)
	if err != nil {
		return err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: epoch}
	config.Config = v1.Config{
		User: nonroot, WorkingDir: "/", Labels: all,
		Entrypoint: []string{"/" + filepath.Base(binaries[0])},
		Env:        []string{"PATH=/"},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	// Under another name first, so that nobody finds half a file.
	if err := tarball.WriteToFile(out+".partial", ref, image); err != nil {
		return err
	}
	return os.Rename(out+".partial", out)
}

// layer is the tar of the image's files.
func layer(binaries []string) ([]byte, error) {
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
		content, readErr := os.ReadFile(binary)
		if readErr != nil {
			return nil, readErr
		}
		err = errors.Join(err, add(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(binary), Mode: 0o755}, content))
	}
	return buffer.Bytes(), errors.Join(err, w.Close())
}
