// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// newLogger returns the logger of the flags, and an outage that writes to it. By default it logs stack traces only of
// panics: errors say what failed.
func (o *options) newLogger() logr.Logger {
	logger := zap.New(zap.UseFlagOptions(&o.logging), func(o *zap.Options) {
		if o.StacktraceLevel == nil && !o.Development {
			o.StacktraceLevel = zapcore.PanicLevel
		}
	})
	o.outage = &outage{log: logger}
	return logger.WithSink(quiet{logger.GetSink(), o.outage})
}

// setLogger makes one logger write all lines, so that each has the same format: those of controller-runtime, of
// client-go (klog), and of libraries that use Go's own log packages.
func setLogger(logger logr.Logger) {
	ctrl.SetLogger(logger)
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true))
	slog.SetDefault(slog.New(logr.ToSlogHandler(logger)))
}
