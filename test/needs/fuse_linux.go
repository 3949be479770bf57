// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// FUSE is a filesystem whose server can stop, like a dead disk or NFS server: every request to it then hangs.
//
// It is mounted nowhere: a process sees it through Root, which is passed to it as an open file. So nothing is left of
// it when this process ends, in any way. This process must not look at it while the server is stopped.
type FUSE struct {
	// Root is the filesystem's root directory.
	Root *os.File

	device *os.File
	paths  []string // by the kernel's number of them, from 1; the first is the root directory

	mu      sync.Mutex
	stopped bool
	held    [][]byte // answers that wait for Continue
}

// NewFUSE mounts a filesystem with empty files of these paths, until the test ends. Directories are made.
func NewFUSE(t testing.TB, files ...string) *FUSE {
	t.Helper()
	f := &FUSE{paths: []string{"/"}}
	for _, file := range files {
		for dir := path.Dir(file); dir != "/"; dir = path.Dir(dir) {
			f.paths = append(f.paths, dir+"/")
		}
		f.paths = append(f.paths, file)
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		Missing(t, fmt.Sprintf("/dev/fuse cannot be opened (%v)", err))
	}
	f.device = os.NewFile(uintptr(fd), "/dev/fuse")
	root, err := mountFUSE(fd)
	if err != nil {
		_ = f.device.Close()
		Missing(t, fmt.Sprintf("a FUSE filesystem cannot be mounted (%v)", err))
	}
	f.Root = os.NewFile(uintptr(root), "fuse")
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.serve(fd)
	}()
	t.Cleanup(func() {
		f.Continue()
		_ = f.Root.Close() // the last one; the kernel then ends the server's read
		<-done
		_ = f.device.Close()
	})
	return f
}

func mountFUSE(device int) (int, error) {
	context, err := unix.Fsopen("fuse", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(context) }()
	for key, value := range map[string]string{
		"source": "test", "fd": fmt.Sprint(device), "rootmode": "40755", "user_id": "0", "group_id": "0",
	} {
		if err := unix.FsconfigSetString(context, key, value); err != nil {
			return 0, fmt.Errorf("%s: %w", key, err)
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return 0, err
	}
	return unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
}

// Stop holds back all answers from now on.
func (f *FUSE) Stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

// Continue gives the answers that were held back, and answers again.
func (f *FUSE) Continue() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = false
	for _, answer := range f.held {
		_, _ = unix.Write(int(f.device.Fd()), answer)
	}
	f.held = nil
}

// The protocol is that of include/uapi/linux/fuse.h, version 7.31.
const (
	opLookup, opForget, opGetattr, opStatfs = 1, 2, 3, 17
	opInit, opInterrupt, opBatchForget      = 26, 36, 42

	fuseHeader = 40 // length, opcode, unique, node, uid, gid, pid, padding
)

func (f *FUSE) serve(device int) {
	request := make([]byte, 1<<20)
	for {
		n, err := unix.Read(device, request)
		switch {
		case err == unix.EINTR || err == unix.ENOENT: // the request was taken back
			continue
		case err != nil: // the filesystem is unmounted
			return
		}
		opcode := binary.NativeEndian.Uint32(request[4:])
		switch opcode {
		case opForget, opInterrupt, opBatchForget:
			continue // no answer is expected
		}
		body, errno := f.answer(opcode, binary.NativeEndian.Uint64(request[16:]), request[fuseHeader:n])
		answer := binary.NativeEndian.AppendUint32(nil, uint32(16+len(body)))
		answer = binary.NativeEndian.AppendUint32(answer, uint32(-int32(errno)))
		answer = append(answer, request[8:16]...)
		answer = append(answer, body...)
		f.mu.Lock()
		if f.stopped {
			f.held = append(f.held, answer)
		} else {
			_, _ = unix.Write(device, answer)
		}
		f.mu.Unlock()
	}
}

func (f *FUSE) answer(opcode uint32, node uint64, body []byte) ([]byte, unix.Errno) {
	words := func(out []byte, all ...uint64) []byte {
		for _, w := range all {
			out = binary.NativeEndian.AppendUint64(out, w)
		}
		return out
	}
	switch opcode {
	case opInit:
		out := make([]byte, 64)
		binary.NativeEndian.PutUint32(out, 7)
		binary.NativeEndian.PutUint32(out[4:], 31)
		binary.NativeEndian.PutUint32(out[20:], 4096) // max_write
		return out, 0
	case opLookup:
		name, _, _ := bytes.Cut(body, []byte{0})
		for i, p := range f.paths {
			if i > 0 && path.Clean(p) == path.Join(f.paths[node-1], string(name)) {
				// Nothing may be remembered: each question is to reach the server.
				return append(words(nil, uint64(i+1), 0, 0, 0, 0), f.attributes(i)...), 0
			}
		}
		return nil, unix.ENOENT
	case opGetattr:
		return append(words(nil, 0, 0), f.attributes(int(node-1))...), 0
	case opStatfs: // half of everything is free; the size of a block is 4096, twice
		return words(nil, 1000, 500, 500, 1000, 500, 255<<32|4096, 4096, 0, 0, 0), 0
	}
	return nil, unix.ENOSYS
}

// attributes is a struct fuse_attr.
func (f *FUSE) attributes(i int) []byte {
	out := make([]byte, 88)
	binary.NativeEndian.PutUint64(out, uint64(i+1))
	mode := uint32(unix.S_IFREG | 0o644)
	if f.paths[i][len(f.paths[i])-1] == '/' {
		mode = unix.S_IFDIR | 0o755
	}
	binary.NativeEndian.PutUint32(out[60:], mode)
	binary.NativeEndian.PutUint32(out[64:], 1)
	return out
}
