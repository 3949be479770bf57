// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/browser"
	"github.com/nodegate/nodegate/test/cluster"
)

// stand is a cluster with nodes, and a browser that shows its dashboard.
type stand struct {
	*cluster.Env
	page *browser.Page
	open func(t testing.TB, url string) *browser.Page
	url  string // with the one-time code, which is used up
}

func TestDashboard(t *testing.T) {
	b := browser.Start(t, chromedp.Flag("host-resolver-rules", "MAP evil.example 127.0.0.1"))
	e := scene(t)
	url, process := start(t, "--kubeconfig", e.Kubeconfig())
	page := browser.Open(b, t, url)
	page.AwaitText("h1", "18 nodes are held")
	open := func(t testing.TB, url string) *browser.Page { return browser.Open(b, t, url) }
	if *pictures != "" {
		take(&stand{Env: e, page: page})
		return
	}
	for _, part := range []struct {
		name string
		run  func(*stand)
	}{
		{"each view fits, in light and dark", fits},
		{"each view shows what it is for", shows},
		{"changes are shown", lives},
		{"the keyboard is enough", keyboard},
		{"texts are never HTML", hostile},
		{"another host is refused, and a code that was used", foreign},
		{"another user sees what its permissions allow", otherUser},
		{"the browser talks only to the plugin, and the plugin only reads", reads},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			part.run(&stand{Env: cluster.NewEnv(t, e.Cluster), page: page.With(t), open: open, url: url})
			if problems := page.Problems(); len(problems) > 0 {
				t.Errorf("the browser complains:\n%s", strings.Join(problems, "\n"))
			}
		}) {
			return // the next parts need what this one leaves
		}
	}
	cluster.Must(t, process.Signal(os.Interrupt))
	page.AwaitText("#banner", "The connection to the plugin is lost. The data is from ")
}

// to goes to a view and waits until it is there.
func (s *stand) to(view, heading string) {
	s.T.Helper()
	s.page.Set(fmt.Sprintf("location.hash = %q", "#/"+view))
	s.page.Await(view, fmt.Sprintf("location.hash === %q && app.view.name === route().name && "+
		"(document.querySelector('h1')?.innerText ?? '').includes(%q) && "+
		"!document.body.innerText.includes('Reading the node')", "#/"+view, heading))
}

// contains waits until the view has texts.
func (s *stand) contains(texts ...string) {
	s.T.Helper()
	for _, text := range texts {
		s.page.AwaitText("main", text)
	}
}

func fits(s *stand) {
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{400, 1280, 3840} {
			s.page.Look(width, 800, "screen", "prefers-color-scheme", scheme)
			for view, heading := range map[string]string{"": "held", "rules": "Rules", "rule/network": "network",
				"fleet?group=topology.kubernetes.io%2Fzone": "Fleet", "node/" + waits: waits} {
				s.to(view, heading)
				s.page.Await(fmt.Sprintf("%q fits in %d pixels", view, width),
					"document.documentElement.scrollWidth <= innerWidth")
			}
			s.page.Await("the colours of "+scheme, fmt.Sprintf("matchMedia('(prefers-color-scheme: %s)').matches && "+
				"(getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0] > 127) === %t", scheme, scheme == "light"))
		}
	}
	s.page.Look(1280, 800, "print", "prefers-color-scheme", "dark")
	s.page.Await("what is printed is light and has no tools",
		"getComputedStyle(document.querySelector('nav')).display === 'none' && "+
			"getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0] > 127")
	s.page.Look(1280, 800, "screen", "prefers-color-scheme", "light")
}

func shows(s *stand) {
	s.to("", "18 nodes are held")
	s.contains("153 nodes under 3 rules", "gpu-drivers waits for condition "+gpu, "14 nodes never released yet",
		"4 of 16 (10%)", "The operator runs. No problem was found.")
	s.page.AwaitText("#identity", "context c")
	s.to("fleet?group=%3Arule", "Fleet")
	s.page.Await("all cells, in groups by the rule", "board.canvas?.dataset.cells === '153' && !board.layout && "+
		"new Set(board.order.map((c) => c.group)).size === 3")
	s.to("rules", "Rules")
	s.contains("Dry-run: the rule changes no node")
	s.to("rule/storage", "storage")
	s.contains("Would be held")
	s.to("rule/network", "network")
	s.contains("In force. Of 153 nodes, 149 ready, 4 held, 0 exempt.", lost[0])
	s.to("node/"+waits, waits)
	s.contains("Node "+waits+" is held by rule gpu-drivers", "not yet", v1alpha1.RecordAnnotationPrefix,
		"kubectl nodegate why "+waits+" --context c --kubeconfig "+s.Kubeconfig(), "topology.kubernetes.io/zone=region-1a")
	s.to("node/none", "none")
	s.contains("There is no node with this name.")
}

func lives(s *stand) {
	s.to("fleet", "Fleet")
	s.Report(waits, gpu, true)
	s.page.Await("the node is released in the fleet",
		"app.nodes.get('"+waits+"').s !== 'Held' && board.dirty.size === 0")
	s.contains("153 nodes, 17 held.")
	s.to("node/gpu-1a-01", "gpu-1a-01")
	s.contains("is held by rule gpu-drivers")
	s.Report("gpu-1a-01", gpu, true)
	s.contains("Node gpu-1a-01 is not held")
	s.to("", "16 nodes are held")
	s.PatchNode("workers-1a-00", fmt.Sprintf(`{"metadata":{"annotations":{%q:"Hold"}}}`, v1alpha1.OverrideAnnotation))
	s.page.Await("an override, with its age", "[...document.querySelectorAll('li')].some((l) => "+
		"/^workers-1a-00 override Hold\\s+for \\d+s$/.test(l.innerText.replace(/\\s+/g, ' ')))")
	s.AddNode("comes", map[string]string{"example.com/pool": "system"})
	s.contains("154 nodes under", "13 nodes never released yet")
	s.Remove(s.Node("comes"))
	s.contains("153 nodes under")
	s.PatchNode("workers-1a-00", fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, v1alpha1.OverrideAnnotation))
	s.page.AwaitText("h1", "16 nodes are held")
}

func keyboard(s *stand) {
	s.to("", "held")
	s.page.Press("/")
	s.page.Await("the search has the focus", "document.activeElement.id === 'search'")
	s.page.Press("gpu-1b-11")
	s.page.AwaitText("#found", "gpu-1b-11")
	s.page.Press(kb.Enter)
	s.page.AwaitText("h1", "gpu-1b-11")
	s.page.Press("f")
	s.page.Await("the fleet", "board.canvas?.isConnected && board.order.length > 0 && !board.layout")
	s.page.Set("board.canvas.focus()")
	s.page.Press(kb.ArrowRight + kb.ArrowRight)
	s.page.Await("the second cell is said",
		"document.getElementById('said').textContent.startsWith(board.order[1].name)")
	s.page.Press(kb.Enter)
	s.page.Await("its node", "document.querySelector('h1').innerText.trim() === board.order[1].name")
}

// hostile has texts that clients may write, and that would be HTML, hide text or turn it around.
func hostile(s *stand) {
	const evil = "<img src=x onerror=hacked=1><script>hacked=1</script>\u202edetrever\u0007"
	const shown = "<img src=x onerror=hacked=1><script>hacked=1</script><U+202E>detrever<U+0007>"
	const name = "system-1a-00"
	node := s.Node(name)
	s.EditNode(name, func(n *corev1.Node) {
		n.Annotations[v1alpha1.OverrideAnnotation] = evil
		n.Annotations[v1alpha1.MaintenanceAnnotation] = evil + strings.Repeat("x", 5000)
	})
	s.Create(&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "evil", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: name, UID: node.UID}, Reason: "Evil" + evil,
		Message: evil, Type: corev1.EventTypeWarning, LastTimestamp: metav1.Now()})
	s.to("", "held")
	s.contains(name + " override " + shown)
	s.to("node/"+name, name)
	s.contains("in maintenance: "+shown, "Evil"+shown, "more characters)")
	for what, expression := range map[string]string{
		"a text became HTML": "typeof hacked !== 'undefined' || " +
			"document.querySelector('main img, main script') !== null",
		"a character that cannot be seen is on the page": "/[\\u202e\\u0007]/.test(document.body.innerText)",
	} {
		if browser.Eval[bool](s.page, expression) {
			s.T.Error(what)
		}
	}
	s.EditNode(name, func(n *corev1.Node) {
		delete(n.Annotations, v1alpha1.OverrideAnnotation)
		delete(n.Annotations, v1alpha1.MaintenanceAnnotation)
	})
}

func foreign(s *stand) {
	address, err := url.Parse(s.url)
	s.Must(err)
	page := s.open(s.T, "http://evil.example:"+address.Port()+"/")
	page.AwaitText("body", "the request is for another host")
	page.Go("http://localhost:" + address.Port() + "/#" + address.Fragment) // this origin has no token
	page.AwaitText("h1", "This page has no access")
	if browser.Eval[bool](page, "(() => { try { document.body.innerHTML = '<b>x</b>'; return true; } "+
		"catch { return false; } })()") {
		s.T.Error("the page may make HTML of a text")
	}
	if browser.Eval[int](page, "localStorage.length") != 0 {
		s.T.Error("a page without access has stored something")
	}
	if href := browser.Eval[string](s.page, "location.href"); strings.Contains(href, "code") {
		s.T.Errorf("the address still has the code: %s", href)
	}
}

func otherUser(s *stand) {
	read := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	rules := read(v1alpha1.GroupVersion().Group, "nodereadinessrules", "list", "watch")
	address, _ := start(s.T, "--kubeconfig",
		s.Account("default", "lister", rules, read("", "nodes", "list")))
	page := s.open(s.T, address)
	page.AwaitText("h1", "16 nodes are held")
	page.AwaitText("#banner", "You have no permission to watch nodes: they are listed every 10s.")
	page.AwaitText("main", "Whether the operator runs is not known")
	page.Set("location.hash = '#/node/gpu-1a-02'")
	page.AwaitText("main", "Node gpu-1a-02 is held by rule gpu-drivers")
	page.AwaitText("main", "Not read: Events: listing events: permission denied")
	s.Report("gpu-1a-02", gpu, true)
	page.AwaitText("main", "Node gpu-1a-02 is not held")

	address, _ = start(s.T, "--as", "system:serviceaccount:default:blind", "--kubeconfig",
		s.Account("default", "blind", rules))
	page = s.open(s.T, address)
	page.AwaitText("#banner", "permission denied")
	page.AwaitText("main", "Rules and nodes must be read before anything is shown.")
}

func reads(s *stand) {
	base, _, _ := strings.Cut(s.url, "#")
	for _, request := range s.page.Requests() {
		if !strings.HasPrefix(request, base) || strings.Contains(request, "oken") {
			s.T.Errorf("the browser asked for %s", request)
		}
	}
	type event struct{ Verb, UserAgent, RequestURI string }
	events, err := cluster.ReadAudit[event](s.AuditLog())
	s.Must(err)
	seen := map[string]int{}
	for _, e := range events {
		if strings.HasPrefix(e.UserAgent, agent) {
			seen[e.Verb]++
			if !slices.Contains([]string{"get", "list", "watch"}, e.Verb) {
				s.T.Errorf("the plugin sent %s %s", e.Verb, e.RequestURI)
			}
		}
	}
	if seen["list"] == 0 {
		s.T.Errorf("the audit log has nothing of the plugin: %v", seen)
	}
}
