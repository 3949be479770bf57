// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs gives the webhook server its certificate. Either the operator makes it and renews it in time, on any
// replica, keeps it in a Secret and tells the API server whom to trust (github.com/open-policy-agent/cert-controller
// does all that); or it is read from files that somebody else keeps, such as cert-manager. A new certificate is served
// from the next connection on, without a restart.
package certs
