// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodegate/nodegate/api/v1alpha1"
	"github.com/nodegate/nodegate/test/build"
	"github.com/nodegate/nodegate/test/child"
	"github.com/nodegate/nodegate/test/needs"
)

// These tests see checks fail on the real thing, in namespaces of their own.

// finds waits until the check finds a failure for this reason, or passes where there is none.
func finds(t *testing.T, c Check, reason string) Outcome {
	t.Helper()
	runner := NewRunner(c)
	var got Outcome
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		got = runner.Do(t.Context())
		if got.Passed == (reason == "") && strings.Contains(got.Reason, reason) {
			return got
		}
	}
	t.Fatalf("want the reason %q, got %+v", reason, got)
	return got
}

// background starts a process that ends with the test.
func background(t *testing.T, cmd *exec.Cmd) *os.Process {
	t.Helper()
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	must(t, child.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd.Process
}

// attach mounts something until the test ends. Directories are made.
func attach(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	must(t, os.MkdirAll(target, 0o700))
	mountAt(t, source, target, kind, flags, data)
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func mountAt(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Fatalf("mounting %s: %v", target, err)
	}
}

func TestDiskPressureOnAFilesystemThatFillsUp(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	dir := filepath.Join(root, DefaultDiskPath)
	attach(t, "tmpfs", dir, "tmpfs", 0, "size=8m,nr_inodes=1000")
	c := DiskPressure(Environment{HostRoot: root}, nil)
	finds(t, c, "")

	full := filepath.Join(dir, "full")
	must(t, os.WriteFile(full, make([]byte, 15<<19), 0o600))
	finds(t, c, "of bytes free, 10% required")
	must(t, os.Remove(full))
	finds(t, c, "")

	small := filepath.Join(dir, "small")
	must(t, os.Mkdir(small, 0o700))
	for i := range 960 {
		must(t, os.WriteFile(filepath.Join(small, fmt.Sprint(i)), nil, 0o600))
	}
	finds(t, c, "of inodes free, 5% required")
	must(t, os.RemoveAll(small))
	finds(t, c, "")
}

// TestDiskPressureOfAFilesystemThatIsUnmounted: the directory below it is on another disk, which has room.
func TestDiskPressureOfAFilesystemThatIsUnmounted(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	root := t.TempDir()
	mounted, dir := filepath.Join(root, "data"), filepath.Join(root, "data/volumes")
	must(t, os.Mkdir(mounted, 0o700))
	must(t, os.Mkdir(dir, 0o700))
	env := Environment{HostRoot: root, Mounts: &Mounts{}}
	check := func() Check {
		c, err := FromSpec(&v1alpha1.HealthCheck{Name: NameDiskPressure, Disk: &v1alpha1.DiskCheck{
			Paths: []string{"/data/volumes/"}, MinFreePercent: new(int32(0)), MinFreeInodesPercent: new(int32(0))}},
			env, nil)
		must(t, err)
		return c
	}
	finds(t, check(), "")
	mountAt(t, "tmpfs", mounted, "tmpfs", 0, "size=8m")
	must(t, os.Mkdir(dir, 0o700))
	finds(t, check(), "")
	must(t, unix.Unmount(mounted, 0))
	finds(t, check(), "/data/volumes/: its filesystem was mounted at /data and is not mounted any more")
	attach(t, "tmpfs", mounted, "tmpfs", 0, "size=9m")
	must(t, os.Mkdir(dir, 0o700))
	finds(t, check(), "")
}

// command runs a command to its end.
func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// twoNetworks returns how to run ip in the test's network namespace, which is one end of links, and in another one at
// their other end. The other one is that of a process that does nothing.
func twoNetworks(t *testing.T, ip, nsenter string) (here, there func(args string), pid string) {
	t.Helper()
	idle := exec.Command("cat")
	idle.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if _, err := idle.StdinPipe(); err != nil { // which is never closed
		t.Fatal(err)
	}
	pid = fmt.Sprint(background(t, idle).Pid)
	here = func(args string) { t.Helper(); command(t, ip, strings.Fields(args)...) }
	there = func(args string) {
		t.Helper()
		command(t, nsenter, append([]string{"--target", pid, "--net", ip}, strings.Fields(args)...)...)
	}
	return here, there, pid
}

// TestAddressesOfServices: in IPVS mode kube-proxy makes the address of every Service a local one.
func TestAddressesOfServices(t *testing.T) {
	ip := needs.Command(t, "ip", "iproute2")
	if !needs.Isolated(t) {
		return
	}
	for _, args := range []string{
		"link add kube-ipvs0 type veth peer name node0", "address add 10.96.0.1/32 dev kube-ipvs0", "link set kube-ipvs0 up",
		"address add 192.0.2.2/32 dev node0", "address add 192.0.2.9/32 dev node0",
		"link set node0 up",
	} {
		command(t, ip, strings.Fields(args)...)
	}
	known := build.MakeNode("n").Obj()
	known.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "192.0.2.2"}, {Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
	}
	for address, want := range map[string]bool{
		"127.0.0.1":    true,
		"192.0.2.2":    true,  // the Node's
		"192.0.2.9":    false, // local, and not the Node's
		"10.96.0.1":    false, // a Service's
		"198.51.100.1": false, // the Node's, but elsewhere: a NAT's
	} {
		to := net.JoinHostPort(address, "80")
		if got := (Environment{Node: fixed{Object: known}}).refuseRemote(to) == nil; got != want {
			t.Errorf("%s with the Node known: %t", address, got)
		}
		for name, env := range map[string]Environment{"an unknown": {Node: fixed{}}, "no": {}} {
			if got := env.refuseRemote(to) == nil; got != (address == "127.0.0.1") {
				t.Errorf("%s with %s Node: %t", address, name, got)
			}
		}
	}
}

// TestNetwork has two links to a gateway each, in a network namespace of its own.
func TestNetwork(t *testing.T) {
	ip, nsenter := needs.Command(t, "ip", "iproute2"), needs.Command(t, "nsenter", "util-linux")
	if !needs.Isolated(t) {
		return
	}
	here, there, pid := twoNetworks(t, ip, nsenter)
	for _, leg := range []string{"1", "2"} {
		here("link add up" + leg + " type veth peer name gw" + leg + " netns " + pid)
		here("address add 192.0." + leg + ".2/24 dev up" + leg)
		here("link set up" + leg + " up")
		there("address add 192.0." + leg + ".1/24 dev gw" + leg)
		there("-6 address add fe80::" + leg + "/64 dev gw" + leg + " nodad")
		there("link set gw" + leg + " up")
	}
	c := Network(Environment{}, nil)

	err := checkRoute(t.Context(), route{link: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "the link 1048576: ") {
		t.Errorf("a link that is gone: %v", err)
	}
	here("route add default nexthop via 192.0.1.1 nexthop via 192.0.2.1")
	finds(t, c, "")
	for _, leg := range []string{"1", "2"} { // whichever is dead, the other one carries the traffic
		there("address delete 192.0." + leg + ".1/24 dev gw" + leg)
		here("neighbour flush dev up" + leg)
		finds(t, c, "")
		there("address add 192.0." + leg + ".1/24 dev gw" + leg)
		finds(t, c, "")
	}
	there("link set gw1 down")
	there("address delete 192.0.2.1/24 dev gw2")
	here("neighbour flush dev up2")
	finds(t, c, "the default gateway 192.0.2.1: does not answer on the link")
	finds(t, c, "the link up1 is down")
	there("link set gw1 up")
	here("route flush exact default")
	finds(t, c, "there is no default route")

	here("-6 address add 2001:db8::2/64 dev up1 nodad")
	there("-6 address add 2001:db8::1/64 dev gw1 nodad")
	here("-6 route add default via 2001:db8::1 dev up1")
	finds(t, c, "")
	there("-6 address delete 2001:db8::1/64 dev gw1")
	here("-6 neighbour flush dev up1")
	finds(t, c, "the default gateway 2001:db8::1: does not answer on the link")
	here("-6 route delete default")

	here("-4 route add default via inet6 fe80::2 dev up2") // without -4 it is an IPv6 route
	finds(t, c, "")
	there("-6 address delete fe80::2/64 dev gw2")
	there("-6 address flush dev gw2")
	here("neighbour flush dev up2")
	finds(t, c, "the default gateway fe80::2: does not answer on the link")
	here("route flush exact default")

	here("tuntap add tun0 mode tun")
	here("address add 192.0.9.2 peer 192.0.9.1 dev tun0")
	here("link set tun0 up")
	here("route add default via 192.0.9.1")
	finds(t, c, "the link tun0 is down") // it has no carrier
	here("route flush exact default")
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0) // as a VPN's daemon has it open
	must(t, err)
	defer func() { _ = unix.Close(tun) }()
	name, err := unix.NewIfreq("tun0")
	must(t, err)
	name.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	must(t, unix.IoctlIfreq(tun, unix.TUNSETIFF, name))
	here("route replace default via 192.0.9.1")
	finds(t, c, "") // there is no neighbour to look for
	here("route flush exact default")

	// A VRF is a link with a table. Many kernels have none, so the table alone is tested: the tables come from the links.
	if diff := cmp.Diff(map[int]bool{unix.RT_TABLE_MAIN: true, 10: true}, routeTables([]netlink.Link{
		&netlink.Dummy{}, &netlink.Vrf{Table: 10}})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	here("route add default via 192.0.1.1 table 10")
	routes, _, err := defaultRoutesIn(map[int]bool{unix.RT_TABLE_MAIN: true, 10: true})
	if err != nil || len(routes) != 1 || !routes[0].gateway.Equal(net.IPv4(192, 0, 1, 1)) {
		t.Errorf("%+v, %v", routes, err)
	}
	finds(t, c, "there is no default route") // the table of no VRF

	if out, err := exec.Command(ip, "link", "add", "blue", "type", "vrf", "table", "10").CombinedOutput(); err != nil {
		t.Logf("this kernel has no VRFs, the rest is left out: %s", out)
		return
	}
	here("link set blue up")
	here("link set up1 master blue")
	here("route replace default via 192.0.1.1 vrf blue")
	finds(t, c, "")
	there("address delete 192.0.1.1/24 dev gw1")
	here("neighbour flush dev up1")
	finds(t, c, "the default gateway 192.0.1.1: does not answer on the link")
}

// TestNetworkWhileLinksChange: pods come and go on each node, each with a link.
func TestNetworkWhileLinksChange(t *testing.T) {
	ip := needs.Command(t, "ip", "iproute2")
	if !needs.Isolated(t) {
		return
	}
	veth := func(name string) *netlink.Veth {
		return &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "-peer"}
	}
	command(t, ip, "link", "set", "lo", "up")
	command(t, ip, "route", "add", "default", "dev", "lo")
	for i := range 50 { // so that a list takes more than one message of the kernel
		must(t, netlink.LinkAdd(veth(fmt.Sprint("pod", i))))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var churn sync.WaitGroup
	churn.Go(func() {
		for ctx.Err() == nil {
			link := veth("churn")
			_ = netlink.LinkAdd(link)
			_ = netlink.LinkDel(link)
		}
	})
	c := Network(Environment{}, nil)
	for range 300 {
		if r := c.Run(t.Context()); !r.Passed {
			t.Error(r.Reason)
			break
		}
	}
	cancel()
	churn.Wait()
	never := func() ([]route, error) { return nil, netlink.ErrDumpInterrupted }
	if _, whole, err := dump(never); whole || err != nil {
		t.Errorf("%t, %v", whole, err)
	}
	none := func() ([]route, bool, error) { return nil, false, nil }
	if r := checkGateway(t.Context(), none); !r.Passed || !strings.Contains(r.FailOpen, "there is no default route") {
		t.Errorf("a list that is not whole shows no gateway: %+v", r)
	}
}

func TestNetworkWithASilentResolver(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	etc := t.TempDir()
	for file, content := range map[string]string{
		"resolv.conf": "nameserver 127.0.0.1\n", "nsswitch.conf": "hosts: files dns\n", "hosts": "192.0.2.7 node.example\n",
	} {
		must(t, os.WriteFile(filepath.Join(etc, file), []byte(content), 0o600))
	}
	attach(t, etc, "/etc", "", unix.MS_BIND, "")
	resolving := func(hosts ...string) Check {
		return Network(Environment{}, &v1alpha1.NetworkCheck{Resolve: hosts, DefaultGateway: new(false)})
	}
	resolver, err := net.ListenPacket("udp", "127.0.0.1:53")
	must(t, err)
	finds(t, resolving("node.example"), "")
	finds(t, resolving("unknown.example"), "resolving unknown.example: no answer")
	go answer(resolver)
	finds(t, Network(Environment{}, &v1alpha1.NetworkCheck{Resolve: []string{"node.example", "unknown.example"}}),
		"resolving unknown.example: no such host (127.0.0.1); there is no default route")
	must(t, resolver.Close())
}

// TestNetworkAsksTheNodesResolvers: the node's own, all at the same time. One that answers is enough.
func TestNetworkAsksTheNodesResolvers(t *testing.T) {
	if !needs.Isolated(t) {
		return
	}
	command(t, needs.Command(t, "ip", "iproute2"), "link", "set", "lo", "up")
	etc, root := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(etc, "resolv.conf"), []byte("nameserver 127.0.0.9\n"), 0o600))
	attach(t, etc, "/etc", "", unix.MS_BIND, "")
	node := func(conf string) {
		must(t, os.MkdirAll(filepath.Join(root, "run"), 0o700))
		must(t, os.MkdirAll(filepath.Join(root, "etc"), 0o700))
		must(t, os.WriteFile(filepath.Join(root, "run/resolv.conf"), []byte(conf), 0o600))
	}
	node("# by hand\nnameserver 127.0.0.2 # silent\nnameserver 127.0.0.3\nsearch first.example second.example\n")
	must(t, os.Symlink("/run/resolv.conf", filepath.Join(root, "etc/resolv.conf")))
	for _, silent := range []string{"127.0.0.2", "127.0.0.9"} {
		conn, err := net.ListenPacket("udp", silent+":53")
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
	}
	conn, err := net.ListenPacket("udp", "127.0.0.3:53")
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go answer(conn, "registry.example.", "short.second.example.")
	resolving := func(host string) Check {
		c, err := FromSpec(&v1alpha1.HealthCheck{Name: NameNetwork, Network: &v1alpha1.NetworkCheck{
			Resolve: []string{host}, DefaultGateway: new(false)}}, Environment{HostRoot: root}, nil)
		must(t, err)
		return c
	}
	for _, host := range []string{"registry.example", "short", "127.0.0.1"} {
		if o := NewRunner(resolving(host)).Do(t.Context()); !o.Passed {
			t.Errorf("%s: %+v", host, o)
		}
	}
	finds(t, resolving("unknown.example"), "resolving unknown.example: no answer (127.0.0.2), no such host (127.0.0.3)")
	node("nameserver 127.0.0.2\n") // read each time
	finds(t, resolving("registry.example"), "resolving registry.example: no answer (127.0.0.2)")
	must(t, os.RemoveAll(filepath.Join(root, "etc")))
	finds(t, resolving("registry.example"), "resolving registry.example: no answer (127.0.0.9)")
}

// answer is a resolver that knows only these names, until the connection is closed. See RFC 1035, section 4.1.1.
func answer(conn net.PacketConn, names ...string) {
	buffer := make([]byte, 512)
	for {
		n, client, err := conn.ReadFrom(buffer)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buffer[:n]) != nil || len(query.Questions) == 0 {
			continue
		}
		reply := dnsmessage.Message{Header: query.Header, Questions: query.Questions}
		reply.Response, reply.RCode = true, dnsmessage.RCodeNameError
		if q := query.Questions[0]; slices.Contains(names, q.Name.String()) {
			reply.RCode = dnsmessage.RCodeSuccess
			if q.Type == dnsmessage.TypeA {
				reply.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
					Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, 1}}}}
			}
		}
		raw, _ := reply.Pack()
		_, _ = conn.WriteTo(raw, client)
	}
}
