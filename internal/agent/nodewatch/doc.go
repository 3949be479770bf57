// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodewatch watches the agent's own node, or reads it if the agent has no permission to watch. It notices
// within 5 seconds that the API server is unavailable, logs that, and retries. It never writes, and reads no other
// object.
package nodewatch
