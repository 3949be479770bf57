// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package expression

import (
	"fmt"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
)

const (
	// maxLength is the length of an expression in bytes, as in the CRD's schema.
	maxLength = 4096
	// maxSearched is the length of a text that an expression searches for.
	maxSearched = 256
	// maxSteps is the number of instructions of a regular expression. "x{1000}" has a thousand.
	maxSteps = 128
)

// searches are the functions whose time grows with the product of both texts, and which CEL's cost does not reflect:
// some count as one step. The value reports whether the text that is searched for is a regular expression.
var searches = map[string]bool{"matches": true, "find": true, "findAll": true, "indexOf": false, "lastIndexOf": false}

// multiplies are the functions that make a text as long as the product of two others in one call, which no deadline
// ends: a rule of 3 KB could take gigabytes.
var multiplies = map[string]bool{"replace": true, "join": true, "format": true}

// checkCalls returns an error if an expression calls a function that multiplies texts, or searches for a text that is
// not a constant or too long. Otherwise a client that annotates a node could choose a text that takes minutes.
func checkCalls(checked *cel.Ast) (err error) {
	ast.PreOrderVisit(checked.NativeRep().Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || err != nil {
			return
		}
		call := e.AsCall()
		if multiplies[call.FunctionName()] {
			err = fmt.Errorf("%s() is not supported, because its result can be too large: compare the parts instead",
				call.FunctionName())
			return
		}
		isRegex, ok := searches[call.FunctionName()]
		args := call.Args()
		if !call.IsMemberFunction() && len(args) > 0 { // matches(text, regex)
			args = args[1:]
		}
		if ok {
			err = checkSearched(call.FunctionName(), args[0], isRegex)
		}
	}))
	return err
}

func checkSearched(function string, arg ast.Expr, isRegex bool) error {
	var text types.String
	constant := arg.Kind() == ast.LiteralKind
	if constant {
		text, constant = arg.AsLiteral().(types.String)
	}
	if !constant {
		return fmt.Errorf("%s() must search for a text in quotes, such as 'gpu', not for a text of the node", function)
	}
	if len(text) > maxSearched {
		return fmt.Errorf("%s() searches for %d bytes: at most %d are allowed", function, len(text), maxSearched)
	}
	if !isRegex {
		return nil
	}
	parsed, err := syntax.Parse(string(text), syntax.Perl)
	if err != nil {
		return nil // the compiler reports it
	}
	if program, err := syntax.Compile(parsed.Simplify()); err != nil || len(program.Inst) > maxSteps {
		return fmt.Errorf("%s(): the regular expression %q is too complex: use smaller numbers of repetitions", function,
			string(text))
	}
	return nil
}
