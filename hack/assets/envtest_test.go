// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// download runs the download from a site and returns what is then in the directory, and what was printed.
func download(t *testing.T, index string) ([]string, string) {
	t.Helper()
	dir, printed := t.TempDir(), &bytes.Buffer{}
	e := &envtest{dir: "envtest", index: index, version: "v1.36.3", log: log.New(printed, "", 0)}
	if err := e.obtain(t.Context(), controlPlane, dir); err != nil {
		t.Errorf("a failed download must leave the rest to the build: %v", err)
	}
	return names(t, dir), printed.String()
}

func TestADownloadSiteThatCannotBeReachedIsGivenUp(t *testing.T) {
	defer func(was time.Duration) { connectLimit = was }(connectLimit)
	connectLimit = 200 * time.Millisecond
	release := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer hangs.Close()
	defer close(release)
	forbids := httptest.NewServer(http.NotFoundHandler())
	defer forbids.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()

	for name, index := range map[string]string{"it hangs": hangs.URL, "it forbids": forbids.URL,
		"it is closed": closed.URL} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			found, printed := download(t, index)
			if len(found) > 0 || !strings.Contains(printed, "no download of envtest's binaries (") {
				t.Errorf("found %v, printed %q", found, printed)
			}
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// site offers a release as controller-tools does. serve writes the archive.
func site(t *testing.T, archive []byte, serve func(w http.ResponseWriter)) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	name := fmt.Sprintf("envtest-v1.36.0-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	mux.HandleFunc("/index.yaml", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "releases:\n  v1.36.0:\n    %s:\n      hash: %x\n      selfLink: %s/%s\n",
			name, sha512.Sum512(archive), server.URL, name)
	})
	mux.HandleFunc("/"+name, func(w http.ResponseWriter, _ *http.Request) { serve(w) })
	return server.URL + "/index.yaml"
}

func envtestArchive(t *testing.T) []byte {
	t.Helper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	files := tar.NewWriter(zipped)
	for _, name := range envtestBinaries {
		err := files.WriteHeader(&tar.Header{Name: "controller-tools/envtest/" + name, Mode: 0o755, Size: int64(len(name))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func TestWhatEnvtestOffersIsDownloaded(t *testing.T) {
	archive := envtestArchive(t)
	found, printed := download(t, site(t, archive, func(w http.ResponseWriter) { _, _ = w.Write(archive) }))
	if !slices.Equal(found, envtestBinaries) {
		t.Errorf("found %v; printed %s", found, printed)
	}
}

func TestADownloadThatTakesTooLongIsGivenUp(t *testing.T) {
	defer func(was time.Duration) { downloadLimit = was }(downloadLimit)
	downloadLimit = 2 * time.Second
	archive, release := envtestArchive(t), make(chan struct{})
	index := site(t, archive, func(w http.ResponseWriter) {
		_, _ = w.Write(archive[:10])
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) }) // before the site's own, which waits for the handler
	found, printed := download(t, index)
	if len(found) > 0 || !strings.Contains(printed, "longer than 2s") {
		t.Errorf("found %v, printed %q", found, printed)
	}
}

func TestADownloadWithTheWrongContentIsNotUsed(t *testing.T) {
	found, printed := download(t, site(t, envtestArchive(t),
		func(w http.ResponseWriter) { _, _ = w.Write([]byte("something else")) }))
	if len(found) > 0 || !strings.Contains(printed, "setup-envtest") {
		t.Errorf("found %v, printed %q", found, printed)
	}
}
