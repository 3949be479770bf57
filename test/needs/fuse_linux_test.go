// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestFUSE looks at the filesystem in another process: this one would hang with its own server.
func TestFUSE(t *testing.T) {
	f := NewFUSE(t, "/a/file")
	look := func() chan error {
		cmd := exec.Command("stat", "--format=%F", "/proc/self/fd/3/a/file")
		cmd.ExtraFiles = []*os.File{f.Root}
		var out strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := Start(cmd); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			err := cmd.Wait()
			if err == nil && !strings.Contains(out.String(), "regular empty file") {
				err = fmt.Errorf("got %s", &out)
			}
			ended <- err
		}()
		return ended
	}
	ended := look()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.Stop()
	ended = look()
	select {
	case err := <-ended:
		t.Fatalf("the server is stopped, and yet it answers: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	f.Continue()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
