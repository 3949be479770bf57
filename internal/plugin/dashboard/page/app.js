// Copyright 2026 The Nodegate Authors.
// SPDX-License-Identifier: Apache-2.0

// This page decides nothing: the plugin sends the states of nodes and all explanations. The page counts, sorts and
// draws them. Texts are only ever set as text, never as HTML.
"use strict";

const STATES = ["Failed", "Held", "Unknown", "WouldHold", "Pending", "Exempt", "Ready", "None"];
const WORDS = {
  Failed: "could not be updated", Held: "held", Unknown: "unknown", WouldHold: "would be held (dry-run)",
  Pending: "about to be held", Exempt: "exempt", Ready: "ready", None: "no rule",
};
// Each state has a shape besides its colour, in a square of 10 by 10.
const SHAPES = {
  Failed: "M0 2 L2 0 L5 3 L8 0 L10 2 L7 5 L10 8 L8 10 L5 7 L2 10 L0 8 L3 5 Z", Held: "M0 0 H10 V10 H0 Z",
  Unknown: "M5 0 A5 5 0 1 1 4.99 0 Z M5 2.4 A2.6 2.6 0 1 0 5.01 2.4 Z", WouldHold: "M0 0 H10 V10 H0 Z M2 2 V8 H8 V2 Z",
  Pending: "M0 0 H10 L0 10 Z", Exempt: "M5 0.5 L10 9.5 H0 Z",
  Ready: "M5 2 A3 3 0 1 1 4.99 2 Z", None: "M2 4.2 H8 V5.8 H2 Z",
};
const BY_RULE = ":rule";
const SHOWN = 300; // rows of a table

const app = { nodes: new Map(), fleet: null, since: Date.now(), history: [], heard: 0, lost: 0, denied: "", whole: false,
  view: null, group: "", zoom: 1, detail: null, drawn: 0, messages: 0 };

// --- Texts -----------------------------------------------------------------------------------------------------------

// clean shows control and bidirectional characters as codes, and cuts long texts.
function clean(text, most = 2000) {
  let s = String(text ?? "");
  if (s.length > most) s = s.slice(0, most) + "… (" + (s.length - most) + " more characters)";
  return s.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu,
    (c) => "<U+" + c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0") + ">");
}

function age(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 120) return s + "s";
  if (s < 7200) return Math.floor(s / 60) + "m";
  if (s < 172800) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}
const now = () => Date.now() / 1000;
const since = (t) => t ? age(now() - t) : "";
const count = (n, one, many = one + "s") => n + " " + (n === 1 ? one : many);
const clock = (ms) => new Date(ms).toLocaleTimeString();
const at = (text) => Date.parse(text) / 1000;

// --- Elements --------------------------------------------------------------------------------------------------------

function h(name, attributes, ...children) {
  const svg = name === "svg" || name === "path";
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [k, v] of Object.entries(attributes ?? {})) {
    if (v === undefined || v === false) continue;
    if (k === "width%") e.style.width = v + "%";
    else if (k === "fill") e.style.fill = "var(--" + v + ")";
    else e.setAttribute(k, v === true ? "" : v);
  }
  for (const c of children.flat(9)) {
    if (c === null || c === undefined || c === false || c === "") continue;
    e.append(c instanceof Node ? c : clean(c));
  }
  return e;
}

// morph changes an element into another one, and keeps what is alike: the focus stays, and nothing flickers.
function morph(old, fresh) {
  const a = [...old.childNodes], b = [...fresh.childNodes];
  for (let i = 0; i < Math.max(a.length, b.length); i++) {
    if (!b[i]) a[i].remove();
    else if (!a[i]) old.append(b[i]);
    else if (a[i].nodeType === 3 && b[i].nodeType === 3) { if (a[i].data !== b[i].data) a[i].data = b[i].data; }
    else if (a[i].nodeName !== b[i].nodeName || a[i].nodeName === "CANVAS") a[i].replaceWith(b[i]);
    else {
      for (const { name } of [...a[i].attributes]) if (!b[i].hasAttribute(name)) a[i].removeAttribute(name);
      for (const { name, value } of b[i].attributes) {
        if (a[i].getAttribute(name) === value) continue;
        if (name === "style") a[i].style.cssText = value; // the policy forbids to set the attribute
        else a[i].setAttribute(name, value);
      }
      morph(a[i], b[i]);
    }
  }
}
const show = (where, ...children) => morph(where, h("div", {}, ...children));

const mark = (state) => h("svg", { class: "mark", viewBox: "0 0 10 10", "aria-hidden": "true" },
  h("path", { d: SHAPES[state] ?? SHAPES.None, fill: state, "fill-rule": "evenodd" }));
const toNode = (name) => "#/node/" + encodeURIComponent(name);
const toRule = (name) => "#/rule/" + encodeURIComponent(name);
const nodeLink = (n) => h("a", { href: toNode(n.n) }, mark(n.s), n.n);
const card = (title, small, ...children) => h("section", { class: "card" },
  h("h2", {}, title, small && h("small", {}, small)), ...children);
const list = (rows, none) => rows.length ? h("ul", { class: "list" }, rows.map((r) => h("li", {}, r))) :
  h("p", { class: "empty" }, none);
const more = (n, most) => n > most && h("p", { class: "soft small spaced" }, "and " + (n - most) + " more");
const table = (head, rows) => h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((t) =>
  h("th", { scope: "col" }, t)))), h("tbody", {}, rows.map((r) => h("tr", {}, r.map((c) => h("td", {}, c)))))));

function spark() {
  const points = app.history, last = Date.now();
  const top = Math.max(1, ...points.map((p) => p[1])), from = app.since, span = Math.max(1, last - from);
  let line = "";
  points.forEach(([t, n], i) => {
    const x = (100 * (t - from) / span).toFixed(2), y = (28 - 26 * n / top).toFixed(2);
    line += (i ? "H" + x + "V" + y : "M0 " + y);
  });
  line += "H100";
  return h("figure", {}, h("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none",
    role: "img", "aria-label": "Held nodes since " + clock(from) + ": now " + (points.at(-1)?.[1] ?? 0) + ", at most " + top },
  points.length > 0 && h("path", { class: "area", d: line + "V30H0Z" }), points.length > 0 && h("path", { d: line })),
  h("figcaption", {}, "held nodes since " + clock(from)));
}

// --- Counting --------------------------------------------------------------------------------------------------------

function tally() {
  const by = Object.fromEntries(STATES.map((s) => [s, 0]));
  for (const n of app.nodes.values()) by[n.s]++;
  return by;
}
const held = (n) => n.s === "Held" || (n.r ?? []).some((p) => p.s === "Held");
const heldNow = () => { let c = 0; for (const n of app.nodes.values()) if (held(n)) c++; return c; };
const waitsFor = (p) => (p.w ?? []).join(", ");

// --- Views -----------------------------------------------------------------------------------------------------------

function viewNow() {
  const by = tally(), causes = new Map(), starting = [], people = [];
  for (const n of app.nodes.values()) {
    for (const p of n.r ?? []) {
      if (p.s !== "Held" && p.s !== "Failed") continue;
      const key = p.u + "\u0000" + p.y + "\u0000" + waitsFor(p);
      const c = causes.get(key) ?? { ...p, n: 0, first: n };
      c.n++;
      if (p.t && (!c.t || p.t < c.t)) c.t = p.t;
      causes.set(key, c);
    }
    const first = (n.r ?? []).filter((p) => p.b && p.s === "Held");
    if (first.length) starting.push([n, first]);
    if (n.o) people.push({ t: n.o.t, what: [nodeLink(n), " override ", h("code", {}, n.o.v), n.p && [": no effect, ", n.p]] });
    if (n.m) people.push({ t: n.m.t, what: [nodeLink(n), " maintenance ", h("code", {}, n.m.v)] });
  }
  for (const r of app.fleet.status.items) {
    if (r.paused) people.push({ t: at(r.paused), what: [h("a", { href: toRule(r.rule) }, r.rule), " is paused"] });
  }
  people.sort((a, b) => (a.t || 0) - (b.t || 0));
  starting.sort((a, b) => a[0].c - b[0].c || (a[0].n < b[0].n ? -1 : 1));
  const sorted = [...causes.values()].sort((a, b) => b.n - a.n || a.u.localeCompare(b.u));
  const limits = app.fleet.status.items.map((r) => [r.rule, app.fleet.rules[r.rule]?.limit]).filter((x) => x[1]);
  const problems = app.fleet.problems ?? [], most = Math.max(1, ...sorted.map((c) => c.n)), heldCount = heldNow();
  return [
    h("h1", {}, heldCount ? count(heldCount, "node is held", "nodes are held") : "No node is held"),
    h("p", { class: "lead" }, app.fleet.status.items.length ? count(app.nodes.size, "node") + " under " +
      count(app.fleet.status.items.length, "rule") + "." : "There are no rules, so no node is held."),
    h("div", { class: "tally" }, STATES.filter((s) => by[s]).map((s) => h("a", { href: "#/fleet" }, h("b", {}, by[s]),
      h("i", {}, mark(s), WORDS[s]))), h("span", { class: "end" }, spark())),
    problems.length > 0 && card("Problems", "", list(problems.map((p) => [mark("Failed"), p]))),
    h("div", { class: "grid" },
      card("What holds nodes", "by number of nodes", list(sorted.slice(0, 20).map((c) => [
        h("div", { class: "row" }, h("span", {}, h("a", { href: toRule(c.u) }, c.u), h("span", { class: "soft" },
          " ", waitsFor(c) ? "waits for " + waitsFor(c) : c.y)), h("span", { class: "num" }, count(c.n, "node"))),
        h("div", { class: "bar " + c.s }, h("div", { "width%": 100 * c.n / most })),
        c.t && h("div", { class: "soft small" }, "the oldest for " + since(c.t)),
      ]), "Nothing holds a node."), more(sorted.length, 20)),
      card("Starting", starting.length ? count(starting.length, "node") + " never released yet" : "",
        list(starting.slice(0, 12).map(([n, pairs]) => [h("div", { class: "row" }, nodeLink(n), h("span", { class: "soft" },
          since(n.c))), h("div", { class: "soft small" }, pairs.map((p) => p.u + " waits for " +
          (waitsFor(p) || p.y)).join("; "))]), "No node is starting."), more(starting.length, 12)),
      card("Limits", "maxUnavailable and limits", list(limits.map(([rule, l]) => [h("div", { class: "row" },
        h("a", { href: toRule(rule) }, rule), h("span", {}, h("span", { class: "num" }, l.inUse + (l.deleted ?? 0)), " of ",
          l.max, l.text !== String(l.max) && h("span", { class: "soft" }, " (" + l.text + ")"))),
      h("div", { class: "bar" }, h("div", { "width%": Math.min(100, 100 * (l.inUse + (l.deleted ?? 0)) / Math.max(1, l.max)) })),
      l.deleted > 0 && h("div", { class: "soft small" }, l.deleted + " of these were deleted while they were held")]),
      "No rule has a limit.")),
      card("By hand", "overrides, maintenance and pauses, the oldest first", list(people.slice(0, 30).map((p) =>
        h("div", { class: "row" }, h("span", {}, p.what), h("span", { class: "soft" }, p.t ? "for " + since(p.t) :
          "age unknown"))), "No override, no maintenance, no paused rule."), more(people.length, 30)),
      problems.length === 0 && card("Problems", "", h("p", { class: "empty" }, mark("Ready"),
        app.fleet.status.operator?.leads ? "The operator runs. No problem was found." :
          "No problem was found. Whether the operator runs is not known: its lease cannot be read."))),
  ];
}

function viewRules() {
  return [h("h1", {}, "Rules"), card("", "", list(app.fleet.status.items.map((r) => {
    const by = Object.fromEntries(STATES.map((s) => [s, 0]));
    for (const n of app.nodes.values()) for (const p of n.r ?? []) if (p.u === r.rule) by[p.s]++;
    return [h("div", { class: "row" }, h("a", { href: toRule(r.rule) }, h("b", {}, r.rule)), h("span", { class: "tag" },
      r.state)), h("div", { class: "soft" }, app.fleet.rules[r.rule]?.sentence), h("div", { class: "legend" },
      STATES.filter((s) => by[s]).map((s) => h("span", {}, mark(s), h("b", {}, by[s]), " ", WORDS[s])))];
  }), "There are no rules, so no node is held."))];
}

function viewRule(name) {
  const r = app.fleet.status.items.find((i) => i.rule === name), v = app.fleet.rules[name];
  if (!r) return [h("h1", {}, name), h("p", { class: "lead" }, "There is no rule with this name.")];
  const rows = [];
  for (const n of app.nodes.values()) for (const p of n.r ?? []) if (p.u === name && p.s !== "Ready") rows.push([n, p]);
  rows.sort((a, b) => STATES.indexOf(a[1].s) - STATES.indexOf(b[1].s) || (a[1].t || 9e12) - (b[1].t || 9e12) ||
    a[0].n.localeCompare(b[0].n));
  const groups = STATES.map((s) => [s, rows.filter((x) => x[1].s === s)]).filter((g) => g[1].length);
  const l = v.limit;
  return [
    h("h1", {}, name),
    h("p", { class: "lead" }, v.sentence),
    h("p", {}, [r.state, r.mode, r.taint].filter(Boolean).map((t) => [h("span", { class: "tag" }, t), " "])),
    r.message && h("p", {}, mark("Failed"), r.message),
    l && card("Limit", l.text, h("p", {}, count(l.inUse, "node") + " in use" + (l.deleted ? ", and " +
      l.deleted + " that were deleted while they were held" : "") + ", of at most " + l.max + "."),
    h("div", { class: "bar" }, h("div", { "width%": Math.min(100, 100 * (l.inUse + (l.deleted ?? 0)) / Math.max(1, l.max)) })),
    (l.domains ?? []).slice(0, SHOWN).map((d) => h("div", { class: "soft small" }, d.per + " \"" + d.domain + "\": " + d.inUse +
      " of " + d.inService + " in use" + (d.deleted ? ", " + d.deleted + " deleted" : "") + (d.waiting ? ", " + d.waiting +
      " waiting" : "")))),
    groups.map(([s, g]) => card(s === "WouldHold" ? "Would be held" : WORDS[s][0].toUpperCase() + WORDS[s].slice(1),
      count(g.length, "node") + ", the longest first", table(["Node", "For", "Reason", "Waits for"], g.slice(0, SHOWN).map(([n, p]) =>
        [h("a", { href: toNode(n.n) }, mark(s), n.n), since(p.t), p.y, waitsFor(p)])), more(g.length, SHOWN))),
    !groups.length && card("Nodes", "", h("p", { class: "empty" }, "All nodes of this rule are ready.")),
    command("kubectl nodegate status", null),
  ];
}

function command(text, label) {
  return label && h("div", { class: "command" }, h("code", {}, text), h("button", { type: "button", "data-copy": text }, "Copy"));
}

const verdict = (ok) => ok === undefined ? mark("Unknown") : ok ? mark("Ready") : mark("Held");

function timeline(t) {
  const marks = t.rules.flatMap((r) => r.milestones).concat(t.firstPod), end = at(t.at), start = at(t.createdAt);
  const reached = marks.filter((m) => m.state === "Reached").map((m) => m.seconds);
  const span = Math.max(1, ...reached, marks.some((m) => m.state === "Pending") ? end - start : 0);
  const words = (m) => ({ firstPod: "first pod", evidence: "all evidence" })[m.event] ?? m.event.replace("/", " ");
  const none = { DryRun: "the rule is in dry-run", Suspended: "the rule is suspended", Frozen: "the rule is frozen",
    Deleting: "the rule is being deleted" };
  const when = (m, r) => m.state === "Reached" ? "after " + age(m.seconds)
    : { Pending: "not yet", None: none[r?.mode] ?? "none on the node" }[m.state] ?? "unknown";
  const lane = (m, r) => [h("span", { class: "name" }, words(m)), h("span", { class: "soft" }, when(m, r)),
  h("div", { class: "lane", role: "presentation" }, ["Reached", "Pending"].includes(m.state) &&
    h("div", { class: m.state, "width%": m.state === "Pending" ? 100 : 100 * m.seconds / span }))];
  return h("div", { class: "chart" }, t.rules.map((r) => [h("h3", {}, "Rule ", r.rule), r.milestones.map((m) => lane(m, r))]),
    h("h3", {}, "The node"), lane(t.firstPod));
}

function viewNode(name) {
  const n = app.nodes.get(name), d = app.detail?.name === name ? app.detail : null;
  if (!n && app.whole) return [h("h1", {}, name), h("p", { class: "lead" }, "There is no node with this name.")];
  const head = [h("h1", {}, n && mark(n.s), name)];
  if (d?.error) return [head, h("p", { class: "lead" }, d.error)];
  if (!d?.view) return [head, h("p", { class: "empty" }, "Reading the node…")];
  const { explanation: e, timeline: t, records = [], events = [], labels = {}, unread = [] } = d.view;
  const facts = ["created " + since(at(e.createdAt)) + " ago", e.ready ? "Ready is " + e.ready : "Ready is not reported",
    e.unschedulable && "cordoned", e.terminating && "being deleted", e.maintenance && "in maintenance: " + e.maintenance].filter(Boolean);
  return [head,
    h("p", { class: "lead" }, e.summary),
    h("p", {}, facts.map((f) => [h("span", { class: "tag" }, f), " "])),
    command(d.view.command, true),
    e.frozen && h("p", {}, mark("Failed"), e.frozen),
    e.override && h("p", {}, "Override ", h("code", {}, e.override.value), e.override.problem && ": " + e.override.problem),
    [...(e.unread ?? []), ...unread].map((u) => h("p", { class: "soft" }, mark("Unknown"), "Not read: " + u)),
    h("div", { class: "grid" },
      e.rules.map((r) => card(h("a", { href: toRule(r.rule) }, r.rule), [r.state || "state unknown", r.reason].filter(Boolean).join(", "),
        !(r.evidence ?? []).some((v) => v.message === r.message) && h("p", {}, r.message),
        list((r.evidence ?? []).map((v) => h("div", { class: "row" }, h("span", {}, verdict(v.satisfied), v.message),
          h("span", { class: "soft small" }, v.since && "for " + since(at(v.since))))), "The rule does not select the node."),
        r.taint && h("p", { class: "small spaced" }, h("code", {}, r.taint.taint), " ", r.taint.message),
        r.published && h("p", { class: "small" }, "Publishes ", h("code", {}, r.published.type), " ", r.published.status, " ", r.published.problem),
        r.guard && h("p", { class: "small" }, r.guard), r.replacement && h("p", { class: "small" }, r.replacement),
        (r.deadlines ?? []).map((x) => h("p", { class: "small soft" }, clock(Date.parse(x.at)) + ": " + x.what)),
        (r.problems ?? []).map((x) => h("p", {}, mark("Failed"), x)))),
      !e.rules.length && card("Rules", "", h("p", { class: "empty" }, "No rule selects this node.")),
      card("Start", "from the node's creation", timeline(t)),
      (e.otherTaints ?? []).length > 0 && card("Other taints", "", list(e.otherTaints.map((x) => [h("code", {}, x.taint), " ",
        h("span", { class: "soft" }, x.by)]))),
      (e.notSelectedBy ?? []).length > 0 && card("Rules that do not select it", "", list(e.notSelectedBy.map((x) =>
        [h("a", { href: toRule(x.rule) }, x.rule), " ", h("span", { class: "soft" }, x.why)]))),
    ),
    card("Events", "", events.length ? table(["Age", "Reason", "Message", "From"], events.map((v) =>
        [since(v.at), [v.type === "Warning" && mark("Exempt"), v.reason, v.count > 1 && " ×" + v.count], v.message, v.from])) :
        h("p", { class: "empty" }, "No events. Kubernetes deletes them after an hour.")),
    card("Records", "annotations of Nodegate", records.length ? table(["Annotation", "Value"],
        records.map((r) => [h("code", {}, r.key), h("code", {}, r.value)])) : h("p", { class: "empty" }, "None.")),
    card("Labels", "", h("p", {}, Object.entries(labels).sort().map(([k, v]) =>
        [h("span", { class: "tag" }, k + "=" + clean(v, 80)), " "]))),
  ];
}

// --- The fleet -------------------------------------------------------------------------------------------------------

const board = { cells: new Map(), order: [], size: 0, focus: "", canvas: null, dirty: new Set(), layout: true };

function groupOf(n) {
  if (app.group !== BY_RULE) return app.group ? n.g || "(no label)" : "";
  const p = (n.r ?? []).find((x) => x.s === "Held" || x.s === "Failed");
  return p ? p.u : "(not held)";
}

function viewFleet() {
  const by = tally(), labels = app.fleet.labels ?? [];
  const option = (value, text) => h("option", { value, selected: value === app.group }, text);
  return [
    h("div", { class: "row" }, h("div", {}, h("h1", {}, "Fleet"), h("p", { class: "lead" }, count(app.nodes.size, "node") + ", " +
      heldNow() + " held.")), spark()),
    h("div", { class: "tools" }, h("label", {}, h("span", { class: "soft" }, "Group by "), h("select", { id: "group" },
      option("", "nothing"), option(BY_RULE, "the rule that holds them"), labels.map((l) => option(l, clean(l, 60))))),
    h("div", { class: "legend" }, STATES.filter((s) => by[s]).map((s) => h("span", {}, mark(s), h("b", {}, by[s]), " ", WORDS[s]))),
    h("span", { class: "end" }, h("button", { type: "button", "data-zoom": "0.8", "aria-label": "Smaller cells" }, "−"),
      h("button", { type: "button", "data-zoom": "0" }, "Fit"),
      h("button", { type: "button", "data-zoom": "1.25", "aria-label": "Larger cells" }, "+"))),
    h("div", { class: "fleet", id: "board" }),
  ];
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries([...STATES, "ink", "soft", "card", "accent"].map((s) => [s, style.getPropertyValue("--" + s).trim()]));
}

// topOf returns where an element begins on the page: lines of the banner come and go above it.
const topOf = (e) => Math.round(e.getBoundingClientRect().top + scrollY);

// lay places all cells: in groups, those with most held nodes first.
function lay() {
  const box = document.getElementById("board");
  if (!box) return;
  let canvas = board.canvas;
  if (!canvas || canvas.parentNode !== box) {
    canvas = board.canvas = h("canvas", { tabindex: "0", role: "application",
      "aria-label": "All nodes as cells. Arrow keys move, Enter opens the node, plus and minus zoom." });
    box.replaceChildren(canvas, h("p", { id: "said", class: "skip", role: "status" }));
    canvas.addEventListener("mousemove", (e) => tip(cellAt(e), e));
    canvas.addEventListener("mouseleave", () => tip(null));
    canvas.addEventListener("click", (e) => { const c = cellAt(e); if (c) location.hash = toNode(c.name); });
    canvas.addEventListener("keydown", move);
    canvas.addEventListener("wheel", (e) => { if (e.ctrlKey) { e.preventDefault(); zoom(e.deltaY < 0 ? 1.15 : 0.87); } }, { passive: false });
  }
  const groups = new Map();
  for (const n of app.nodes.values()) {
    const g = groupOf(n);
    if (!groups.has(g)) groups.set(g, { name: g, nodes: [], held: 0 });
    groups.get(g).nodes.push(n);
    if (held(n)) groups.get(g).held++;
  }
  const sorted = [...groups.values()].sort((a, b) => b.held - a.held || a.name.localeCompare(b.name, "en", { numeric: true }));
  for (const g of sorted) g.nodes.sort((a, b) => a.n < b.n ? -1 : 1);
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize), width = box.clientWidth;
  const title = app.group ? 1.9 * rem : 0, gap = app.group ? 0.7 * rem : 0;
  board.top = topOf(box);
  const room = Math.max(240, innerHeight - board.top - 5.5 * rem);
  const heightAt = (s) => sorted.reduce((sum, g) => sum + title + gap + Math.ceil(g.nodes.length / Math.floor(width / s)) * s, 0);
  let size = 2.4 * rem;
  while (size > 4 && heightAt(size) > room) size -= size > 12 ? 1 : 0.25;
  size = Math.min(60, Math.max(4, size * app.zoom));
  const ratio = devicePixelRatio || 1;
  while (heightAt(size) * ratio > 16000 && size > 4) size *= 0.9;
  const height = Math.ceil(heightAt(size)) || 1;
  canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
  canvas.style.height = height + "px";
  board.size = size; board.columns = Math.floor(width / size); board.ratio = ratio;
  board.cells = new Map(); board.order = []; board.rows = [];
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  const paint = board.paint = colours();
  let y = 0;
  for (const g of sorted) {
    if (app.group) {
      pen.font = "600 " + 0.95 * rem + "px " + getComputedStyle(document.body).fontFamily;
      pen.fillStyle = paint.ink; pen.textBaseline = "alphabetic";
      const text = clean(g.name, 80);
      pen.fillText(text, 0, y + 1.25 * rem);
      const x = pen.measureText(text).width;
      pen.font = 0.85 * rem + "px " + getComputedStyle(document.body).fontFamily;
      pen.fillStyle = paint.soft;
      pen.fillText(count(g.nodes.length, "node") + (g.held ? ", " + g.held + " held" : ""), x + 0.7 * rem, y + 1.25 * rem);
    }
    y += title;
    g.nodes.forEach((n, i) => {
      const cell = { name: n.n, x: (i % board.columns) * size, y: y + Math.floor(i / board.columns) * size, group: g.name };
      board.cells.set(n.n, cell);
      board.order.push(cell);
      drawCell(pen, cell, n);
    });
    y += Math.ceil(g.nodes.length / board.columns) * size + gap;
  }
  board.layout = false;
  board.dirty.clear();
  canvas.dataset.laid = String(Number(canvas.dataset.laid ?? 0) + 1);
  canvas.dataset.cells = String(board.order.length);
}

const paths = Object.fromEntries(Object.entries(SHAPES).map(([s, d]) => [s, new Path2D(d)]));

function drawCell(pen, cell, n) {
  const s = board.size, pad = Math.max(0.5, s * 0.1), scale = (s - 2 * pad) / 10;
  pen.clearRect(cell.x, cell.y, s, s);
  pen.save();
  pen.translate(cell.x + pad, cell.y + pad);
  pen.scale(scale, scale);
  pen.fillStyle = board.paint[n.s];
  pen.fill(paths[n.s], "evenodd");
  pen.restore();
  if (cell.name === board.focus) {
    pen.strokeStyle = board.paint.accent; pen.lineWidth = Math.max(1, s * 0.12);
    pen.strokeRect(cell.x + pen.lineWidth / 2, cell.y + pen.lineWidth / 2, s - pen.lineWidth, s - pen.lineWidth);
  }
  app.drawn++;
}

// redraw draws the cells that have changed, once each; nodes that come, go or move to another group need a new layout.
function redraw() {
  if (!board.canvas?.isConnected || topOf(board.canvas.parentNode) !== board.top) board.layout = true;
  for (const name of board.dirty) {
    const n = app.nodes.get(name), cell = board.cells.get(name);
    if (!n !== !cell || n && groupOf(n) !== cell.group) board.layout = true;
  }
  if (board.layout) return lay();
  const pen = board.canvas.getContext("2d");
  for (const name of board.dirty) if (board.cells.has(name)) drawCell(pen, board.cells.get(name), app.nodes.get(name));
  board.dirty.clear();
}

function cellAt(e) {
  const r = board.canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
  return board.order.find((c) => x >= c.x && x < c.x + board.size && y >= c.y && y < c.y + board.size) ?? null;
}

function describe(n) {
  return [h("b", {}, n.n), h("span", {}, mark(n.s), WORDS[n.s]), (n.r ?? []).filter((p) => p.s !== "Ready").slice(0, 4).map((p) =>
    h("div", { class: "soft" }, p.u + ": " + (waitsFor(p) ? "waits for " + waitsFor(p) : p.y) + (p.t ? ", for " + since(p.t) : "")))];
}

function tip(cell, e) {
  let t = document.getElementById("tip");
  const n = cell && app.nodes.get(cell.name);
  if (!n) return t?.remove();
  if (!t) document.body.append(t = h("div", { id: "tip" }));
  show(t, describe(n));
  const x = e ? e.clientX : board.canvas.getBoundingClientRect().left + cell.x, y = e ? e.clientY : board.canvas.getBoundingClientRect().top + cell.y;
  t.style.left = Math.max(8, Math.min(x + 14, innerWidth - t.offsetWidth - 8)) + "px";
  t.style.top = (y + 20 + t.offsetHeight > innerHeight ? y - t.offsetHeight - 8 : y + 20) + "px";
}

function move(e) {
  const order = board.order, i = Math.max(0, order.findIndex((c) => c.name === board.focus));
  const to = { ArrowRight: i + 1, ArrowLeft: i - 1, ArrowDown: i + board.columns, ArrowUp: i - board.columns, Home: 0, End: order.length - 1 }[e.key];
  if (e.key === "Enter" && board.focus) location.hash = toNode(board.focus);
  if (e.key === "+" || e.key === "=") zoom(1.25);
  if (e.key === "-") zoom(0.8);
  if (to === undefined || !order.length) return;
  e.preventDefault();
  const cell = order[board.focus ? Math.max(0, Math.min(order.length - 1, to)) : 0];
  board.dirty.add(cell.name);
  if (board.focus) board.dirty.add(board.focus);
  board.focus = cell.name;
  redraw();
  const r = board.canvas.getBoundingClientRect(), y = r.top + cell.y;
  if (y < 90 || y > innerHeight - 60) scrollBy(0, y - innerHeight / 2);
  tip(cell);
  const n = app.nodes.get(cell.name);
  document.getElementById("said").textContent = clean(n.n + ", " + WORDS[n.s]);
}

function zoom(by) {
  app.zoom = by ? Math.min(12, Math.max(0.5, app.zoom * by)) : 1;
  lay();
}

// --- Rendering -------------------------------------------------------------------------------------------------------

function route() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const [, name = "", of = ""] = path.split("/");
  let which = of;
  try { which = decodeURIComponent(of); } catch { /* it is not encoded: as it is */ }
  return { name: name || "now", of: which, group: new URLSearchParams(query ?? "").get("group") ?? "" };
}

let asked = false;
function render() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

function draw() {
  const r = app.view, main = document.getElementById("main");
  banner();
  for (const a of document.querySelectorAll("nav a")) {
    const on = a.dataset.view === r.name || a.dataset.view === "rules" && r.name === "rule";
    if (on) a.setAttribute("aria-current", "page"); else a.removeAttribute("aria-current");
  }
  const titles = { now: "Now", fleet: "Fleet", rules: "Rules", rule: r.of, node: r.of };
  document.title = clean((titles[r.name] ?? "Nodegate") + " · " + (app.fleet?.identity.context || "Nodegate"), 120);
  if (app.fleet) identity();
  if (app.denied) return show(main, h("h1", {}, "This page has no access"), h("p", { class: "lead" }, app.denied));
  if (!app.fleet || app.fleet.loading) {
    return show(main, h("p", { class: "empty" }, app.fleet?.gaps || app.fleet?.lost ?
      "Rules and nodes must be read before anything is shown." : "Reading the cluster…"));
  }
  main.classList.toggle("whole", r.name === "fleet");
  if (r.name === "fleet") {
    const box = document.getElementById("board"), parts = viewFleet();
    if (!box) { show(main, parts); board.layout = true; }
    else { // all but the board
      const fresh = h("div", {}, parts);
      [...main.children].forEach((c, i) => { if (c !== box && c !== board.canvas) morph(c, fresh.children[i]); });
    }
    return redraw();
  }
  tip(null);
  const views = { now: viewNow, rules: viewRules, rule: viewRule, node: viewNode };
  show(main, (views[r.name] ?? viewNow)(r.of));
}

function identity() {
  const i = app.fleet.identity;
  show(document.getElementById("identity"), Object.entries({ context: i.context || "none", cluster: i.cluster, user: i.user || "none" })
    .map(([k, v]) => h("div", { title: clean(v) }, h("dt", {}, k), h("dd", {}, clean(v, 120)))));
}

function banner() {
  const lines = [];
  if (app.lost) lines.push("The connection to the plugin is lost. The data is from " + clock(app.lost) + ", " +
    age((Date.now() - app.lost) / 1000) + " ago.");
  else if (app.fleet?.lost && app.fleet.loading) lines.push("The API server does not answer: " + app.fleet.why);
  else if (app.fleet?.lost) lines.push("The API server does not answer. The data is from " + clock(app.fleet.lost * 1000) + ", " +
    since(app.fleet.lost) + " ago: " + app.fleet.why);
  lines.push(...app.fleet?.gaps ?? []);
  show(document.getElementById("banner"), lines.map((l) => h("p", {}, mark("WouldHold"), l)));
}

// --- Search ----------------------------------------------------------------------------------------------------------

const search = document.getElementById("search"), found = document.getElementById("found");
let picked = 0;
function find() {
  const text = search.value.trim().toLowerCase(), hits = [];
  for (const n of app.nodes.values()) if (text && n.n.toLowerCase().includes(text)) hits.push(n);
  hits.sort((a, b) => a.n.toLowerCase().indexOf(text) - b.n.toLowerCase().indexOf(text) || (a.n < b.n ? -1 : 1));
  picked = Math.max(0, Math.min(picked, Math.min(hits.length, 12) - 1));
  found.hidden = !text;
  search.setAttribute("aria-expanded", String(!found.hidden));
  show(found, hits.slice(0, 12).map((n, i) => h("li", { role: "option", "aria-selected": String(i === picked) }, nodeLink(n))),
    text && !hits.length && h("li", {}, h("p", {}, "No node has this in its name.")),
    hits.length > 12 && h("li", {}, h("p", {}, "and " + (hits.length - 12) + " more")));
  return hits;
}
function close() { search.value = ""; find(); search.blur(); }
search.addEventListener("input", () => { picked = 0; find(); });
search.addEventListener("keydown", (e) => {
  if (e.key === "ArrowDown" || e.key === "ArrowUp") { e.preventDefault(); picked += e.key === "ArrowDown" ? 1 : -1; find(); }
  if (e.key === "Enter") { const n = find()[picked]; if (n) { location.hash = toNode(n.n); close(); } }
  if (e.key === "Escape") close();
});
document.addEventListener("click", (e) => {
  if (e.target.closest("#found a")) close();
  else if (!e.target.closest(".search")) found.hidden = true;
  const copy = e.target.closest("[data-copy]");
  if (copy) navigator.clipboard.writeText(copy.dataset.copy).then(() => { copy.textContent = "Copied"; },
    () => { getSelection().selectAllChildren(copy.previousElementSibling); });
  const z = e.target.closest("[data-zoom]");
  if (z) zoom(Number(z.dataset.zoom));
});
document.addEventListener("change", (e) => {
  if (e.target.id === "group") location.hash = "#/fleet" + (e.target.value ? "?group=" + encodeURIComponent(e.target.value) : "");
});
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea")) return;
  if (e.key === "/") { e.preventDefault(); search.focus(); }
  const to = { n: "#/", f: "#/fleet", r: "#/rules" }[e.key];
  if (to) location.hash = to;
});

// --- The plugin ------------------------------------------------------------------------------------------------------

const TOKEN = "nodegate-token";
const NO_ACCESS = "Each address of the dashboard works once, in one browser. Start kubectl nodegate dashboard again, and open the new address.";
const ask = (path, more = {}) => fetch(path, { ...more, headers: { Authorization: "Bearer " + localStorage.getItem(TOKEN) } });

async function session() {
  const code = /^#code=(.*)$/.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(null, "", location.pathname + "#/");
  const r = await fetch("api/session", { method: "POST", body: JSON.stringify({ code }) });
  if (r.ok) localStorage.setItem(TOKEN, (await r.json()).token);
}

let fetching = false, again = false;
async function readDetail() {
  const r = app.view;
  if (r.name !== "node" || app.whole && !app.nodes.has(r.of)) return;
  if (fetching) { again = true; return; }
  fetching = true;
  try {
    const answer = await ask("api/node?name=" + encodeURIComponent(r.of));
    if (answer.ok) app.detail = { name: r.of, view: await answer.json() };
    else if (answer.status !== 401) app.detail = { name: r.of, error: await answer.text() };
  } catch { /* the stream tells that the connection is lost */ }
  fetching = false;
  if (again) { again = false; setTimeout(readDetail, 250); }
  render();
}

function take(m) {
  app.messages++;
  app.heard = Date.now();
  app.lost = 0;
  if (m.fleet) app.fleet = m.fleet;
  if (m.whole) { app.nodes.clear(); board.layout = true; app.whole = !app.fleet?.loading; }
  for (const n of m.nodes ?? []) { app.nodes.set(n.n, n); board.dirty.add(n.n); }
  for (const n of m.gone ?? []) { app.nodes.delete(n); board.dirty.add(n); }
  if (app.fleet && !app.fleet.loading) {
    app.whole = true;
    const c = heldNow(), last = app.history.at(-1);
    if (!last || last[1] !== c) app.history.push([last ? Date.now() : app.since, c]);
    if (app.history.length > 2000) app.history.splice(1, 500);
  }
  const open = app.view.of;
  if (app.view.name === "node" && (m.fleet || (m.nodes ?? []).some((n) => n.n === open) || (m.touched ?? []).includes(open))) readDetail();
  if (m.fleet || m.whole || m.nodes?.length || m.gone?.length) render();
}

let stream = null;
async function listen() {
  stream?.abort();
  const control = stream = new AbortController(), group = app.group === BY_RULE ? "" : app.group;
  while (!control.signal.aborted) {
    try {
      const answer = await ask("api/stream?group=" + encodeURIComponent(group), { signal: control.signal });
      if (answer.status === 401) { app.denied = NO_ACCESS; return render(); }
      if (!answer.ok) { app.denied = await answer.text(); render(); throw new Error(answer.status); }
      app.denied = "";
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line) take(JSON.parse(line));
      }
    } catch { /* it is tried again */ }
    if (control.signal.aborted) return;
    if (!app.lost && app.heard) app.lost = app.heard;
    render();
    await new Promise((r) => setTimeout(r, 2000));
  }
}

function go() {
  app.view = route();
  const group = app.view.name === "fleet" ? app.view.group : app.group;
  if (group !== app.group || !stream) { app.group = group; board.layout = true; listen(); }
  if (app.view.name === "node") { if (app.detail?.name !== app.view.of) app.detail = null; readDetail(); }
  scrollTo(0, 0);
  draw();
}

addEventListener("hashchange", go);
addEventListener("resize", () => { board.layout = true; render(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { board.layout = true; render(); });
setInterval(() => {
  if (app.heard && Date.now() - app.heard > 15000 && !app.lost) { app.lost = app.heard; listen(); }
  if (app.view?.name !== "fleet" || app.lost) render();
}, 5000);
session().catch(() => {}).finally(go);
