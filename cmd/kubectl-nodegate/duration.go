// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// span is the value of a flag for a duration. It takes all that Go's durations take, days and weeks, but no negative
// duration.
type span time.Duration

// long are the units that Go's durations lack, in hours.
var long = map[string]time.Duration{"d": 24, "w": 7 * 24}

// Set implements pflag.Value. Each number with its unit is parsed alone, because Go cannot parse days.
func (s *span) Set(text string) error {
	var total time.Duration
	for rest := text; rest != "" || text == ""; {
		unit := strings.TrimLeft(rest, "0123456789.")
		number := strings.TrimSuffix(rest, unit)
		rest = strings.TrimLeft(unit, "abcdefghijklmnopqrstuvwxyzµμ")
		unit = strings.TrimSuffix(unit, rest)
		hours, days := long[unit]
		if days {
			unit = "h"
		}
		part, err := time.ParseDuration(number + unit)
		factor := max(hours, 1)
		if err != nil || number == "" || part > (math.MaxInt64-total)/factor {
			return fmt.Errorf("%q is not a duration: use numbers and units, such as 90s, 30m, 1.5h or 2d", text)
		}
		total += part * factor
	}
	*s = span(total)
	return nil
}

// String implements pflag.Value.
func (s *span) String() string { return model.Duration(*s).String() }

// Type implements pflag.Value.
func (*span) Type() string { return "duration" }
