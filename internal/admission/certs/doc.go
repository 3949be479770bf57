// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package certs provides the webhook server's certificate. There are two ways. The operator issues and renews the
// certificate on any replica, keeps it in a Secret, and writes its authority into the webhook configurations. Or the
// certificate is in files that another program keeps, such as cert-manager. That of metrics may be in files, too. New
// connections use a new certificate without a restart. A problem with the certificate never ends the operator, which
// holds and releases nodes without webhooks, too.
package certs
