// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser opens pages in a headless Chromium, which ends with the test. Only tests import it.
package browser

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/nodegate/nodegate/test/needs"
)

// Patience is for how long anything is waited for. The machine may be busy.
const Patience = 2 * time.Minute

// Start starts a browser, and returns a context for Open. Without a browser on this machine the test is skipped.
func Start(t testing.TB, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	path, err := needs.Find("google-chrome")
	if err != nil {
		path = needs.Command(t, "chromium-headless-shell", "chromium-headless-shell")
	}
	flags = append(append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path)), flags...)
	ctx, end := chromedp.NewExecAllocator(context.Background(), flags...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	must(t, chromedp.Do(ctx)) // starts it
	return ctx
}

// Page is a tab. Its methods end the test if the browser refuses.
type Page struct {
	T   testing.TB
	ctx context.Context
	*seen
}

// seen is what the browser reported of a page.
type seen struct {
	mu       sync.Mutex
	problems []string
	requests []string
}

// Open opens a tab with an address.
func Open(browser context.Context, t testing.TB, url string) *Page {
	t.Helper()
	p := &Page{T: t, seen: &seen{}}
	ctx, end := chromedp.NewContext(browser, chromedp.WithListener(p.listen))
	t.Cleanup(end)
	must(t, chromedp.Do(ctx)) // the tab lives as long as the context of the first call
	p.ctx = ctx
	p.Go(url)
	return p
}

// With returns the page for a part of its test.
func (p *Page) With(t testing.TB) *Page { return &Page{T: t, ctx: p.ctx, seen: p.seen} }

func (s *seen) listen(event any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		s.problems = append(s.problems, fmt.Sprintf("%+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		s.problems = append(s.problems, e.Entry.Text+" "+e.Entry.URL)
	case *network.EventRequestWillBeSent:
		s.requests = append(s.requests, e.Request.URL)
	}
}

// Problems returns exceptions, and what the browser logged: refused resources and violations of the content policy.
func (s *seen) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.problems...)
}

// Requests returns the addresses of all requests of the page.
func (s *seen) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run[T any](p *Page, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, Patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

func (p *Page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	_, err := run(p, chromedp.Steps(steps...))
	must(p.T, err)
}

// Go goes to an address and waits until it is loaded.
func (p *Page) Go(url string) {
	p.T.Helper()
	p.do(chromedp.Navigate(url))
}

// Eval returns the value of an expression, which may be a promise.
func Eval[T any](p *Page, expression string) T {
	p.T.Helper()
	value, err := run(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	must(p.T, err)
	return value
}

// Set evaluates an expression and ignores its value.
func (p *Page) Set(expression string) {
	p.T.Helper()
	Eval[chromedp.Void](p, expression)
}

// Await waits until an expression is true. The page's policy forbids the library's own way to wait.
func (p *Page) Await(what, expression string) {
	p.T.Helper()
	var err error
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		is := false
		if is, err = run(p, chromedp.Evaluate[bool](expression)); is {
			return
		}
	}
	text, _ := run(p, chromedp.Evaluate[string]("location.href + '\\n' + document.body.innerText"))
	p.T.Fatalf("%s: not within %s: %v\n%s\n%s", what, Patience, err, text, strings.Join(p.Problems(), "\n"))
}

// AwaitText waits until a text is in the first element of a selector. A line break there is a space.
func (p *Page) AwaitText(selector, text string) {
	p.T.Helper()
	p.Await(fmt.Sprintf("%q in %s", text, selector),
		fmt.Sprintf("(document.querySelector(%q)?.innerText ?? '').replace(/\\s+/g, ' ').includes(%q)",
			selector, text))
}

// Press presses keys, one after another. As on a keyboard, a page that handles a key can keep it from being typed.
func (p *Page) Press(keys string) {
	p.T.Helper()
	for _, key := range keys {
		for _, event := range kb.Encode(key) {
			if event.Type == kb.KeyChar {
				continue // it would be typed in any case
			}
			if event.Type == kb.KeyDown {
				event.Text = kb.Keys[key].Text
			}
			p.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
				_, err := chromedp.Call(ctx, input.DispatchKeyEvent, *event)
				return err
			}))
		}
	}
}

// Look sets the size of the page in pixels, and a feature of its medium, such as prefers-color-scheme.
func (p *Page) Look(width, height int64, medium, feature, value string) {
	p.T.Helper()
	p.do(chromedp.EmulateViewport(width, height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium,
			Features: []*emulation.MediaFeature{{Name: feature, Value: value}}})
		return err
	}))
}

// Picture returns the page as PNG.
func (p *Page) Picture() []byte {
	p.T.Helper()
	p.Set("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")
	raw, err := run(p, chromedp.CaptureScreenshot())
	must(p.T, err)
	return raw
}
