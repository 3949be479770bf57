// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodewatch knows the agent's own node: by a watch on that one object, or where the agent may not watch, by
// reading it. It notices within 5 seconds that the API server is gone, says so in the log, and keeps trying. It never
// writes, and it reads no other object.
package nodewatch
