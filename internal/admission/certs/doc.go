// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs gives the webhook server its certificate. Either the operator issues it and renews it in time, on any
// replica, keeps it in a Secret and writes its authority into the webhook configurations; or the certificate is read
// from files that another program keeps, such as cert-manager. A new certificate is served from the next connection on,
// without a restart. A problem with the certificate never ends the operator: nodes are held and released without
// webhooks, too.
package certs
