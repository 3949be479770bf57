// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package checks

import (
	"context"
	"errors"
	"net"
)

var errNotLinux = errors.New("this works on Linux only")

const unnamed = 0 // a directory then: EISDIR

func statfs(string) (usage, error) { return usage{}, errNotLinux }

func deviceOf(string) (uint64, error) { return 0, errNotLinux }

func defaultRoutes() ([]route, bool, error) { return nil, false, errNotLinux }

func reachable(context.Context, net.IP, *net.Interface) error { return errNotLinux }
