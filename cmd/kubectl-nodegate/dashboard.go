// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/nodegate/nodegate/internal/plugin/dashboard"
	"github.com/nodegate/nodegate/internal/plugin/input"
	"github.com/nodegate/nodegate/internal/plugin/report"
	"github.com/nodegate/nodegate/internal/ruleset"
	"github.com/nodegate/nodegate/internal/version"
)

func newDashboard(p *plugin) *cobra.Command {
	var noBrowser bool
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show the fleet in the browser, until Ctrl-C",
		Long: `Open a page in the browser that shows what holds nodes, all nodes, each rule, and each node, as they
are now. The plugin serves the page on this machine (127.0.0.1 and a free port), and reads the cluster
with your permissions. It changes nothing, and installs nothing in the cluster.

The address has a code that works once, in one browser. Press Ctrl-C to end the dashboard.`,
		Example: "  kubectl nodegate dashboard\n  kubectl nodegate dashboard --no-browser --context production",
		Args:    cobra.NoArgs,
		RunE: p.onCluster(func(ctx context.Context, c *input.Cluster, _ []string) error {
			return p.dashboard(ctx, c, noBrowser)
		}),
	}
	cmd.Flags().BoolVar(&noBrowser, "no-browser", false, "Print the address instead of opening it in the browser.")
	return cmd
}

func (p *plugin) dashboard(ctx context.Context, c *input.Cluster, noBrowser bool) error {
	identity, flags, err := p.identity()
	if err != nil {
		return err
	}
	live := dashboard.NewLive(dashboard.Options{
		Cluster: c, Identity: identity, Now: p.now,
		Frozen:   func(ctx context.Context) *ruleset.Problem { return frozen(ctx, c) },
		Problems: func(ctx context.Context) (_, _ []string) { return installation(ctx, c) },
		FirstPod: func(ctx context.Context, node string) (*time.Time, error) { return firstPod(ctx, c, node) },
		Command:  func(node string) string { return shellCommand(append([]string{"why", node}, flags...)) },
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !klog.V(1).Enabled() {
		ctx = klog.NewContext(ctx, klog.Logger{}) // the page says what cannot be read
	}
	go live.Run(ctx) // a request that hangs must not keep Ctrl-C from ending the plugin
	return dashboard.NewServer(live).Serve(ctx, func(url string) {
		defer fmt.Fprintln(p.streams.Out, "The dashboard runs until Ctrl-C.")
		if noBrowser {
			fmt.Fprintf(p.streams.Out, "Open this address, which works once: %s\n", url)
			return
		}
		go func() { // some openers are the browser itself, and end with it
			if err := browse(ctx, url); err != nil && ctx.Err() == nil {
				fmt.Fprintf(p.streams.ErrOut, "warning: no browser could be opened: %v\n", err)
				fmt.Fprintf(p.streams.Out, "Open this address, which works once: %s\n", url)
			}
		}()
	})
}

// browse opens an address in the user's browser. Programs of other users of this machine may read the one-time code in
// the arguments of the opener; it is used up when the page is there.
func browse(ctx context.Context, url string) error {
	var names [][]string
	switch runtime.GOOS {
	case "darwin":
		names = [][]string{{"open"}}
	case "windows":
		names = [][]string{{"rundll32", "url.dll,FileProtocolHandler"}}
	default:
		names = [][]string{{"xdg-open"}, {"wslview"}, {"x-www-browser"}}
	}
	err := errors.New("no program for it was found")
	for _, name := range names {
		if _, missing := exec.LookPath(name[0]); missing != nil {
			continue
		}
		if err = exec.CommandContext(ctx, name[0], append(name[1:], url)...).Run(); err == nil {
			return nil
		}
	}
	return err
}

// identity says which cluster is read as whom, and returns the flags that say the same on another command line.
func (p *plugin) identity() (dashboard.Identity, []string, error) {
	loader := p.config.ToRawKubeConfigLoader()
	raw, err := loader.RawConfig()
	if err != nil {
		return dashboard.Identity{}, nil, input.Explain(err, "reading the kubeconfig")
	}
	config, err := loader.ClientConfig()
	if err != nil {
		return dashboard.Identity{}, nil, input.Explain(err, "reading the kubeconfig")
	}
	out := dashboard.Identity{Version: version.Version, Cluster: withoutUser(config.Host),
		Context: cmp.Or(ptr.Deref(p.config.Context, ""), raw.CurrentContext)}
	if c := raw.Contexts[out.Context]; c != nil {
		out.User = c.AuthInfo
	}
	out.User = cmp.Or(ptr.Deref(p.config.AuthInfoName, ""), out.User)
	if as := config.Impersonate.UserName; as != "" {
		out.User += " as " + as
	}
	var flags []string
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, name, value)
		}
	}
	add("--context", out.Context)
	kubeconfig := cmp.Or(ptr.Deref(p.config.KubeConfig, ""), p.kubeconfigVariable())
	if absolute, err := filepath.Abs(kubeconfig); err == nil && kubeconfig != "" {
		kubeconfig = absolute // the other command line may begin in another directory
	}
	add("--kubeconfig", kubeconfig)
	add("--cluster", ptr.Deref(p.config.ClusterName, ""))
	add("--user", ptr.Deref(p.config.AuthInfoName, ""))
	add("--server", withoutUser(ptr.Deref(p.config.APIServer, "")))
	add("--as", ptr.Deref(p.config.Impersonate, ""))
	add("--as-uid", ptr.Deref(p.config.ImpersonateUID, ""))
	for _, group := range ptr.Deref(p.config.ImpersonateGroup, nil) {
		add("--as-group", group)
	}
	return out, flags, nil
}

// userInfo is the part of an address that has a user and a password, after the scheme.
var userInfo = regexp.MustCompile(`^(\w+://)?[^/]*@`)

// withoutUser returns an address without a user and a password, which others who see the page must not read.
func withoutUser(address string) string { return userInfo.ReplaceAllString(address, "$1") }

// kubeconfigVariable returns the file that KUBECONFIG names, if it is one: a flag cannot name several.
func (p *plugin) kubeconfigVariable() string {
	value := p.getenv(clientcmd.RecommendedConfigPathEnvVar)
	if strings.ContainsAny(value, ":;") {
		return ""
	}
	return value
}

// installation returns what is wrong with the operator's deployments and the CRD, and what of them cannot be read.
func installation(ctx context.Context, c *input.Cluster) (out, unread []string) {
	v := &report.Versions{Plugin: version.Version}
	if err := versions(ctx, c, v); err != nil {
		return nil, []string{err.Error()}
	}
	o := c.Operator(ctx)
	out = skewed(v, o != nil && o.Leads)
	deployments, _ := input.List[*appsv1.Deployment](ctx, c, "the operator's deployment", &appsv1.DeploymentList{},
		input.OperatorLabels) // versions has reported an error
	for _, d := range deployments {
		wanted, ready := ptr.Deref(d.Spec.Replicas, 1), d.Status.ReadyReplicas
		switch {
		case ready == 0 && wanted > 0:
			out = append(out, fmt.Sprintf("The operator (deployment %s/%s) has no ready replica: its webhooks are unavailable.",
				d.Namespace, d.Name))
		case ready < wanted:
			out = append(out, fmt.Sprintf("The operator (deployment %s/%s) has %d of %d replicas ready.", d.Namespace, d.Name,
				ready, wanted))
		}
	}
	return out, v.Unread
}

// skewed returns how versions differ, in sentences. An operator that leads without a deployment runs elsewhere, or with
// other labels.
func skewed(v *report.Versions, leads bool) (out []string) {
	for _, s := range v.Skew {
		if s != noDeployment || !leads {
			out = append(out, strings.ToUpper(s[:1])+s[1:]+".")
		}
	}
	return out
}

// shellCommand returns a command line of the plugin, quoted for bash and zsh.
func shellCommand(args []string) string {
	words := []string{"kubectl nodegate"}
	for _, arg := range args {
		words = append(words, quote(arg))
	}
	return strings.Join(words, " ")
}

// quote quotes a word for a shell. Characters that would not be seen as they are, are written as codes.
func quote(word string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("-_./:=@%+,", r))
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	if strings.IndexFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for _, c := range []byte(word) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return "$'" + b.String() + "'"
}
