// Live updates, times in the viewer's zone, keys, sorting, endless lists. Pages can be read without it.

const body = document.body;

// Times: relative where they are near, with the exact time of the viewer's zone as a title.
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
// Beside others, a time is read to the millisecond.
const precise = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23" });
const UNITS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [604800, "day", 86400]];

let shownAt = 0;

function showTimes(root) {
  shownAt = Date.now();
  for (const element of root.querySelectorAll("time[data-at]")) {
    const at = Number(element.dataset.at);
    const seconds = (at - Date.now()) / 1000;
    const unit = UNITS.find(([limit]) => Math.abs(seconds) < limit);
    const near = unit ? relative.format(Math.round(seconds / unit[2]), unit[1]) : exact.format(at);
    const isExact = element.dataset.exact !== undefined;
    const text = isExact ? precise.format(at).replace(",", "") : near;
    if (element.textContent !== text) element.textContent = text;
    // It is removed with the time that it belongs to.
    if (isExact) element.title = near + ", " + element.getAttribute("datetime");
    else if (!element.title) element.title = exact.format(at) + ", " + element.getAttribute("datetime");
  }
}

// Not the property: that of a form is its input named `id`.
const idOf = (node) => node.getAttribute?.("id") ?? "";

// Changes `old` into `fresh` in place, so that scroll positions, selections and open details stay.
function morph(old, fresh) {
  if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || idOf(old) !== idOf(fresh)) {
    old.replaceWith(fresh);
    return;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || later.has(fresh)) return;
  if (old.matches("time[data-at]") && old.dataset.at === fresh.dataset.at) return;
  // The state of a control belongs to the reader.
  if (old.matches("[data-control]")) return;
  if (old.matches("pre.output") && keepsOutput(old, fresh)) return;
  // A heading has a button, which the server does not know.
  if (old.matches("table[data-sortable] th") && old.textContent === fresh.textContent) return;
  const keeps = (name) => (name === "open" && old.nodeName === "DETAILS") || (name === "class" && old.matches(".at, .dragged"))
    || ((name === "width" || name === "height") && old.matches("svg.graph"));
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !keeps(name)) old.removeAttribute(name);
  for (const { name, value } of [...fresh.attributes]) if (old.getAttribute(name) !== value && !keeps(name)) old.setAttribute(name, value);
  if (old === document.activeElement && "value" in old) return;
  morphChildren(old, fresh);
  if (old.matches("pre.output") && isFollowed(old)) toEnd(old);
}

function morphChildren(old, fresh) {
  const known = new Map();
  for (const child of old.children) if (idOf(child)) known.set(idOf(child), child);
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const match = known.get(idOf(child));
    if (match) {
      if (match !== at) old.insertBefore(match, at);
      else at = at.nextSibling;
      morph(match, child);
    } else if (at && !idOf(at) && at.nodeName === child.nodeName) {
      const next = at.nextSibling;
      morph(at, child);
      at = next;
    } else {
      old.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Rows of a long table follow, some in each frame: all at once would make the frame late.
const ROWS = 20;
const later = new WeakSet();

async function morphRows(old, rows) {
  const known = new Map([...old.children].map((row) => [idOf(row), row]));
  const wanted = new Set(rows.map(idOf));
  let at = old.firstElementChild;
  const drop = () => { const gone = at; at = at.nextElementSibling; gone.remove(); };
  for (const [index, row] of rows.entries()) {
    if (index % ROWS === 0) {
      await new Promise(requestAnimationFrame);
      // The reader has selected something, extended the list or sorted it: the rest waits.
      if (isKept()) return false;
    }
    const match = known.get(idOf(row));
    while (match && at && !wanted.has(idOf(at))) drop();
    if (match && match === at) at = at.nextElementSibling;
    else old.insertBefore(match ?? row, at);
    if (match) morph(match, row);
    // The table keeps its length.
    else if (at && old.children.length > rows.length) {
      const last = old.lastElementChild;
      if (at === last) at = null;
      last.remove();
    }
  }
  while (at) drop();
  return true;
}

// One stream tells that the history has changed; then the page is loaded again and morphed.
const live = document.getElementById("live");
let loading = false, stale = false, loadedAt = Date.now(), tag = null;

// Minimum time from one load to the next; a page that takes long says so.
const THROTTLE = 15000;
// Time from a load that failed, or during which something has changed, to the next.
const AGAIN = 1000;
let again = 0;

const after = (ms) => { again ||= setTimeout(() => { again = 0; reload(); }, ms); };
const isKept = () => document.querySelector("input[name=id]:checked, [data-appended]");

// For a change that the stream has told, the server renders a page once for all who look at it.
async function reload(change) {
  if (document.hidden || loading) { stale = true; return; }
  const early = body.dataset.refresh === "throttled" ? loadedAt + THROTTLE - Date.now() : 0;
  if (early > 0) { after(early); return; }
  // A selection and an extended list stay as they are.
  if (isKept()) { live.textContent = "paused"; return; }
  loading = true;
  stale = false;
  try {
    const headers = { accept: "text/html" };
    if (change) headers["baton-change"] = change;
    if (change && tag) headers["if-none-match"] = tag;
    const response = await fetch(location.href, { headers });
    if (response.redirected || response.status === 401) { location.reload(); return; }
    const isUnchanged = response.status === 304;
    const text = response.ok ? await response.text() : "";
    // The reader may have selected or extended something meanwhile.
    if (isKept()) { live.textContent = "paused"; return; }
    if (response.ok) {
      const isWhole = await show(text);
      tag = isWhole ? response.headers.get("etag") : null;
      stale ||= !isWhole;
    }
    if (response.ok || isUnchanged) live.textContent = "live";
    else if (response.status >= 429) after(3 * AGAIN);
    loadedAt = Date.now();
  } catch {
    // The server is away; the stream, or the timer, loads the page when it is back.
    if (body.dataset.refresh === "timer") live.textContent = "reconnecting…";
    else after(3 * AGAIN);
  } finally {
    loading = false;
    // What has changed meanwhile may be missing.
    if (stale) after(AGAIN);
  }
}

// Shows a page; false if a part of it is missing.
async function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const main = fresh.getElementById("main");
  if (!main) return false;
  document.title = fresh.title;
  const icon = fresh.querySelector("link[rel=icon]").getAttribute("href");
  const old = document.querySelector("link[rel=icon]");
  if (old.getAttribute("href") !== icon) old.setAttribute("href", icon);
  body.dataset.refresh = fresh.body.dataset.refresh;
  showTimes(main);
  const rows = document.querySelector("#list tbody");
  const freshRows = rows && main.querySelector("#list tbody");
  const isLong = freshRows && Math.max(rows.children.length, freshRows.children.length) > ROWS
    && [...rows.children, ...freshRows.children].every(idOf);
  if (isLong) later.add(freshRows);
  morphChildren(document.getElementById("main"), main);
  const isWhole = !isLong || await morphRows(rows, [...freshRows.children]);
  prepare();
  return isWhole;
}

function follow() {
  if (body.dataset.refresh === "never") return;
  if (body.dataset.refresh === "timer") {
    document.addEventListener("visibilitychange", () => { if (!document.hidden && stale) reload(); });
    setInterval(() => reload(), 2000);
    return;
  }
  // A browser opens six connections to a server at most: hidden pages must not hold them.
  document.addEventListener("visibilitychange", () => { if (document.hidden) disconnect(); else connect(); });
  connect();
  setInterval(() => { if (body.dataset.refresh === "often" && Date.now() - loadedAt > 1900) reload(); }, 2000);
}

// A selection that is gone no longer holds back what has changed.
document.addEventListener("change", (event) => {
  if (event.target.matches("input[name=id]") && live.textContent === "paused" && !isKept()) reload();
});

let stream = null;

function connect() {
  if (stream || document.hidden) return;
  const opened = new EventSource("/-/changes");
  stream = opened;
  opened.addEventListener("open", () => { live.textContent = "live"; reload(); });
  opened.addEventListener("error", () => {
    live.textContent = "reconnecting…";
    if (opened.readyState === EventSource.CLOSED && stream === opened) { disconnect(); setTimeout(connect, 3000); }
  });
  opened.addEventListener("message", (event) => reload(event.data));
}

function disconnect() {
  stream?.close();
  stream = null;
}

// Endless lists: the next page is appended when its link is seen.
function extend(link) {
  const observer = new IntersectionObserver(async (entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    const response = await fetch(link.href, { headers: { accept: "text/html" } });
    if (!response.ok) return;
    const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
    const rows = document.querySelector("#list tbody");
    rows.dataset.appended = "true";
    rows.append(...fresh.querySelectorAll("#list tbody > tr"));
    const place = link.parentElement, next = fresh.getElementById("more");
    if (next) {
      // It may tell how far it has looked.
      place.replaceChildren(...next.parentElement.childNodes);
      if (rows.children.length > 0) document.getElementById("none")?.remove();
      extend(next);
    } else if (rows.children.length > 0) place.remove();
    else place.replaceChildren(fresh.querySelector(".empty")?.textContent ?? "");
    prepare();
  });
  observer.observe(link);
}

// Sorting of the rows that are there, by a click on a heading.
function sortable(table) {
  for (const [column, heading] of [...table.tHead.rows[0].cells].entries()) {
    if (heading.querySelector("button, .hidden")) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const ascending = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => key(a).localeCompare(key(b), undefined, { numeric: true }) * (ascending ? 1 : -1));
      table.tBodies[0].append(...rows);
      table.tBodies[0].dataset.appended = "true";
    });
  }
}

// The graph: zoom by buttons and keys, pan by dragging. Arrow keys scroll it as any other box.
const DRAG_MIN = 4;
let scale = 1;

function zoomTo(picture, next) {
  const graph = picture.querySelector("svg.graph");
  const { width, height } = graph.viewBox.baseVal;
  const ratio = next / scale;
  // What is in the middle stays there.
  const [x, y] = [picture.scrollLeft + picture.clientWidth / 2, picture.scrollTop + picture.clientHeight / 2];
  scale = next;
  graph.setAttribute("width", width * scale);
  graph.setAttribute("height", height * scale);
  if (ratio !== 1) picture.scrollTo(x * ratio - picture.clientWidth / 2, y * ratio - picture.clientHeight / 2);
}

function zoom(picture, factor) {
  const fit = () => Math.min(1, picture.clientWidth / picture.querySelector("svg.graph").viewBox.baseVal.width);
  zoomTo(picture, factor === 0 ? fit() : Math.min(4, Math.max(0.05, scale * factor)));
}

function movable(picture) {
  const tools = document.querySelector(".zoom");
  if (!picture.querySelector("svg.graph")) return;
  // After an update: the size is that of the reader.
  if (!tools.hidden) { zoomTo(picture, scale); return; }
  tools.hidden = false;
  tools.addEventListener("click", (event) => { if (event.target.dataset.zoom) zoom(picture, Number(event.target.dataset.zoom)); });
  picture.addEventListener("keydown", (event) => {
    const factor = { "+": 1.25, "-": 0.8, "0": 0 }[event.key];
    if (factor !== undefined && !event.ctrlKey && !event.metaKey) zoom(picture, factor);
  });
  draggable(picture);
}

function draggable(picture) {
  let from = null, dragged = false;
  picture.addEventListener("pointerdown", (event) => {
    dragged = false;
    // Fingers scroll the box already.
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    from = { x: event.clientX, y: event.clientY, left: picture.scrollLeft, top: picture.scrollTop };
  });
  picture.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [x, y] = [event.clientX - from.x, event.clientY - from.y];
    if (!dragged && Math.hypot(x, y) < DRAG_MIN) return;
    if (!dragged) { dragged = true; picture.setPointerCapture(event.pointerId); picture.classList.add("dragged"); }
    picture.scrollTo(from.left - x, from.top - y);
  });
  const end = () => { from = null; picture.classList.remove("dragged"); };
  picture.addEventListener("pointerup", end);
  picture.addEventListener("pointercancel", end);
  // Boxes are links: a drag that begins on one neither drags the link nor opens it.
  picture.addEventListener("dragstart", (event) => event.preventDefault());
  picture.addEventListener("click", (event) => { if (dragged) event.preventDefault(); dragged = false; }, true);
}

// Output. A switch follows its end: scrolling up switches it off, scrolling to the end switches it on.
const switchOf = (log) => document.querySelector(`[data-follow="${log.id}"]`);
const isFollowed = (log) => switchOf(log)?.getAttribute("aria-pressed") === "true";
const toEnd = (log) => { log.scrollTop = log.scrollHeight; };

function setFollowed(log, followed) {
  const was = isFollowed(log);
  switchOf(log).setAttribute("aria-pressed", followed);
  if (!followed || was) return;
  toEnd(log);
  // What has come meanwhile may have been left out.
  if (body.dataset.refresh !== "never") reload();
}

function followable(log) {
  const button = switchOf(log);
  if (!button?.hidden) return;
  button.hidden = false;
  toEnd(log);
  let top = log.scrollTop;
  button.addEventListener("click", () => setFollowed(log, !isFollowed(log)));
  log.addEventListener("scroll", () => {
    const isEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    // A smaller window also moves the end away, without an event of the reader.
    if (isEnd || log.scrollTop < top) setFollowed(log, isEnd);
    top = log.scrollTop;
  });
}

// Whole outputs of which only the lines with a text are shown.
const unfiltered = new WeakMap();

function keepsOutput(old, fresh) {
  // A page has the last part of a long output: without its beginning, the reader would lose the place.
  if (!isFollowed(old) && Number(fresh.dataset.begin) > Number(old.dataset.begin)) return true;
  if (!unfiltered.has(old)) return false;
  unfiltered.set(old, fresh.innerHTML);
  return true;
}

function filter(input) {
  const log = document.getElementById(input.dataset.find);
  const whole = unfiltered.get(log) ?? log.innerHTML;
  if (!input.value) {
    if (unfiltered.delete(log)) log.innerHTML = whole;
    return;
  }
  unfiltered.set(log, whole);
  const holder = document.createElement("div");
  holder.innerHTML = whole;
  const lines = holder.textContent.split("\n").filter((line) => line.toLowerCase().includes(input.value.toLowerCase()));
  log.textContent = lines.join("\n");
}

document.addEventListener("input", (event) => { if (event.target.matches("[data-find]")) filter(event.target); });

// An error of a text leads to its line.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-line]");
  if (!link) return;
  event.preventDefault();
  const text = document.getElementById("text"), lines = text.value.split("\n");
  const at = Number(link.dataset.line) - 1;
  const from = lines.slice(0, at).join("\n").length + (at > 0 ? 1 : 0);
  text.focus();
  text.setSelectionRange(from, from + (lines[at]?.length ?? 0));
  text.scrollTop = (at - 3) * (text.scrollHeight / lines.length);
});

// The page of events. The server sends the newest ones, and counts those that it leaves out.
const EVENTS_SHOWN = 500;

function showEvents(list) {
  const stream = new EventSource("/-/events" + list.dataset.query);
  let pending = [], timer = 0;
  const show = (event) => {
    pending.push(entry(JSON.parse(event.data)));
    timer ||= setTimeout(flush, 50);
  };
  const flush = () => {
    timer = 0;
    list.prepend(...pending.reverse());
    pending = [];
    while (list.children.length > EVENTS_SHOWN) list.lastChild.remove();
    showTimes(list);
  };
  const entry = (data) => {
    const item = document.createElement("li");
    const what = document.createElement("span");
    what.textContent = data.text;
    if (data.at === undefined) {
      item.className = "faint";
      item.append(what);
      return item;
    }
    const time = document.createElement("time");
    time.setAttribute("datetime", new Date(data.at).toISOString());
    time.dataset.at = data.at;
    item.append(time, " ");
    const about = data.links?.instance || data.links?.run || data.links?.fleet;
    if (about) {
      const link = document.createElement("a");
      link.href = about;
      link.textContent = about.slice(about.lastIndexOf("/") + 1);
      item.append(link, " ");
    }
    item.append(what);
    return item;
  };
  const kinds = (list.dataset.kinds || "").split(" ").filter(Boolean);
  for (const kind of [...kinds, "skipped", "lost"]) stream.addEventListener(kind, show);
  stream.addEventListener("open", () => { live.textContent = "live"; });
  stream.addEventListener("error", () => { live.textContent = "reconnecting…"; });
}

// Saved filters: names of queries of a list. They are in this browser; the address of a list can be sent to others.
const SAVED = "baton-filters";

function savedFilters() {
  try { return JSON.parse(localStorage.getItem(SAVED)) ?? {}; } catch { return {}; }
}

function saveFilters(list, filters) {
  try { localStorage.setItem(SAVED, JSON.stringify({ ...savedFilters(), [list]: filters })); } catch { /* A browser may refuse to keep anything. */ }
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// What a form leaves empty, and where a page begins, is no filter.
function filterOf(search) {
  const query = new URLSearchParams(search);
  return new URLSearchParams([...query].filter(([name, value]) => value !== "" && name !== "cursor")).toString();
}

function showSaved(place, isOpen) {
  const list = place.dataset.list, current = filterOf(location.search);
  const filters = savedFilters()[list] ?? [];
  const items = filters.map(({ name, query }) => {
    const link = element("a", { href: "?" + query, textContent: name });
    if (query === current) link.setAttribute("aria-current", "true");
    const remove = element("button", { type: "button", className: "remove", title: "Remove", textContent: "×" });
    remove.setAttribute("aria-label", "Remove the filter " + name);
    remove.addEventListener("click", () => { saveFilters(list, filters.filter((it) => it.name !== name)); showSaved(place, true); });
    return element("li", {}, link, remove);
  });
  const input = element("input", { required: true, autocomplete: "off", maxLength: 60 });
  const form = element("form", {}, element("label", {}, "Save this filter as ", input), element("button", { type: "submit", textContent: "Save" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const name = input.value.trim();
    if (!name) return;
    saveFilters(list, [...filters.filter((it) => it.name !== name), { name, query: current }]);
    showSaved(place, false);
  });
  const details = element("details", { open: isOpen }, element("summary", { textContent: "Saved filters" }));
  details.append(current ? form : element("p", { className: "faint", textContent: "A filter that is in the address can be saved here, in this browser." }));
  place.replaceChildren(element("ul", {}, ...items), details);
  place.hidden = filters.length === 0 && !current && !isOpen;
}

const saved = document.getElementById("saved");
if (saved) showSaved(saved, false);

// Keys.
const PLACES = { o: "/", r: "/arena/", w: "/bullpen/", h: "/history/", l: "/library/", n: "/runs/", a: "/alarms/", b: "/backfills/", k: "/workers/", u: "/usage/" };
let going = false;

function rowsOf() { return [...document.querySelectorAll("#list tbody tr")]; }

function step(by) {
  const rows = rowsOf();
  if (rows.length === 0) return;
  const at = rows.findIndex((row) => row.classList.contains("at"));
  const next = rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))];
  rows[at]?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
}

// Arrows walk through a grid of cells, which are links.
document.addEventListener("keydown", (event) => {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const cells = event.target.closest?.(".cells");
  if (!by || !cells) return;
  const links = [...cells.querySelectorAll("a")];
  links[links.indexOf(event.target) + by]?.focus();
  event.preventDefault();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const row = () => document.querySelector("#list tr.at");
  if (going) { going = false; document.querySelector(`nav a[href="${PLACES[event.key]}"]`)?.click(); return; }
  switch (event.key) {
    case "/": event.preventDefault(); document.getElementById("q").focus(); break;
    case "j": step(1); break;
    case "k": step(-1); break;
    case "x": row()?.querySelector("input[name=id]")?.click(); break;
    case "Enter": if (event.target === body) row()?.querySelector("a")?.click(); break;
    case "f": event.preventDefault(); document.querySelector(".filters :is(select, input:not([type=hidden]))")?.focus(); break;
    case "s": if (saved) { showSaved(saved, true); saved.querySelector("a, input, summary").focus(); event.preventDefault(); } break;
    case "g": going = true; break;
    case "?": location.assign("/-/keys"); break;
  }
});

function prepare() {
  showTimes(document);
  for (const table of document.querySelectorAll("table[data-sortable]")) sortable(table);
  for (const log of document.querySelectorAll("pre.output")) followable(log);
  for (const input of document.querySelectorAll("[data-find]")) if (input.value) filter(input);
  const picture = document.getElementById("graph");
  if (picture) movable(picture);
}

prepare();
const more = document.getElementById("more");
if (more) extend(more);
const events = document.getElementById("events");
if (events) showEvents(events);
// A live page has shown them just now: each pass is a layout.
setInterval(() => { if (Date.now() - shownAt > 900) showTimes(document); }, 1000);
follow();
