// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

const (
	// CostLimit is the maximum cost of one evaluation, in CEL's unit. It is about a tenth of a second, as for a validation
	// rule of Kubernetes.
	CostLimit = 1_000_000

	// Timeout is the longest time that one evaluation takes. CEL's cost is an estimate.
	Timeout = time.Second

	// checkInterval is the number of steps of a comprehension after which the cost and the time are checked.
	checkInterval = 100
)

// compatibility is the Kubernetes version whose CEL functions expressions may use: the oldest supported one.
var compatibility = version.MajorMinor(1, 32)

// env is created once, because that is expensive.
var env = sync.OnceValues(func() (*cel.Env, error) {
	set, err := environment.MustBaseEnvSet(compatibility).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions:        []cel.EnvOption{cel.Variable("node", nodeType.CelType())},
		DeclTypes:         []*apiservercel.DeclType{nodeType},
	})
	if err != nil {
		return nil, fmt.Errorf("creating the CEL environment: %w", err)
	}
	return set.NewExpressionsEnv(), nil
})

// Program is a compiled expression. It is safe for concurrent use.
type Program struct{ program cel.Program }

// Compile compiles an expression. The error names the line and the column.
func Compile(text string) (*Program, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("has %d bytes: at most %d are allowed", len(text), maxLength)
	}
	e, err := env()
	if err != nil {
		return nil, err
	}
	ast, issues := e.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("cannot be compiled: %w", err)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("must be a bool, not %s: add a comparison", ast.OutputType())
	}
	if err := checkCalls(ast); err != nil {
		return nil, err
	}
	program, err := e.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(CostLimit), cel.InterruptCheckFrequency(checkInterval))
	if err != nil {
		return nil, fmt.Errorf("cannot be compiled: %w", err)
	}
	return &Program{program: program}, nil
}

// Eval evaluates the expression for a node. It fails if the expression reads a field that the node does not have, or
// costs or takes too much.
func (p *Program) Eval(node Value) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	out, _, err := p.program.ContextEval(ctx, map[string]any{"node": map[string]any(node)})
	if err != nil {
		return false, fmt.Errorf("cannot be evaluated: %w", err)
	}
	result, ok := out.Value().(bool)
	if !ok { // Compile has checked this
		return false, fmt.Errorf("must be a bool, not %s", out.Type().TypeName())
	}
	return result, nil
}
