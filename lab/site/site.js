// Search, links to headings, and buttons that copy commands. Pages can be read without it.
"use strict";

const root = document.currentScript.dataset.root;
const maxFound = 20;

// loadIndex loads what can be found, once, when somebody wants to search.
let loading = null;
function loadIndex() {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + "search-index.js";
    script.onload = done;
    script.onerror = failed;
    document.head.append(script);
  });
  return loading;
}

// find returns the sections with all words: first those with the words in their headings.
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const found = [];
  for (const s of searchIndex) {
    const title = (s.h + " " + s.p).toLowerCase(), text = (s.t ?? "").toLowerCase();
    let rank = 0;
    for (const w of words) {
      const at = title.startsWith(w) ? 9 : title.includes(w) ? 6 : text.includes(w) ? 1 : 0;
      if (at === 0) { rank = 0; break; }
      rank += at;
    }
    if (s.a.startsWith("decisions/")) rank /= 2; // why it is so, and not how
    if (rank > 0) found.push([rank, s]);
  }
  return found.sort((a, b) => b[0] - a[0]).slice(0, maxFound).map(([, s]) => s);
}

// excerpt is the text around the first word.
function excerpt(text, query) {
  const at = (text ?? "").toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]);
  if (at < 0) return "";
  const from = Math.max(0, at - 40);
  return (from > 0 ? "…" : "") + text.slice(from, at + 80) + "…";
}

function setUpSearch() {
  const input = document.querySelector(".search input"), list = document.querySelector(".search ol");
  let selected = -1;
  const select = (n) => {
    const items = [...list.querySelectorAll("li:not(.none)")];
    selected = items.length === 0 ? -1 : (n + items.length) % items.length;
    items.forEach((li, i) => li.setAttribute("aria-selected", i === selected));
    items[selected]?.scrollIntoView({block: "nearest"});
  };
  const show = async () => {
    const query = input.value.trim();
    if (query === "") { list.hidden = true; return; }
    await loadIndex();
    if (query !== input.value.trim()) return;
    const items = find(query).map((s) => {
      const li = document.createElement("li"), a = document.createElement("a"), small = document.createElement("small");
      a.href = root + s.a;
      a.textContent = s.h === s.p ? s.h : s.p + " › " + s.h;
      small.textContent = excerpt(s.t, query);
      a.append(small);
      li.append(a);
      return li;
    });
    if (items.length === 0) {
      const li = document.createElement("li");
      li.className = "none";
      li.textContent = "Nothing found";
      items.push(li);
    }
    list.replaceChildren(...items);
    list.hidden = false;
    select(0);
  };
  input.addEventListener("focus", loadIndex);
  input.addEventListener("input", show);
  input.addEventListener("keydown", (e) => {
    if (e.key === "ArrowDown" || e.key === "ArrowUp") {
      e.preventDefault();
      select(selected + (e.key === "ArrowDown" ? 1 : -1));
    } else if (e.key === "Enter") {
      list.querySelector("li[aria-selected=true] a")?.click();
    } else if (e.key === "Escape") {
      input.value = "";
      list.hidden = true;
    }
  });
  list.addEventListener("click", () => { list.hidden = true; });
  document.addEventListener("click", (e) => { if (!e.target.closest(".search")) list.hidden = true; });
  document.addEventListener("keydown", (e) => {
    if (e.key === "/" && !/INPUT|TEXTAREA/.test(document.activeElement.tagName)) {
      e.preventDefault();
      input.focus();
    }
  });
}

function setUpHeadings() {
  for (const h of document.querySelectorAll("main :is(h2, h3, h4)[id]")) {
    const a = document.createElement("a");
    a.className = "anchor";
    a.href = "#" + h.id;
    a.textContent = "#";
    a.setAttribute("aria-label", "Link to this section");
    h.append(a);
  }
}

// setUpCopy lets one copy the commands of a block, without prompts and what they print.
function setUpCopy() {
  if (!navigator.clipboard) return;
  for (const pre of document.querySelectorAll("main pre")) {
    const commands = [...pre.querySelectorAll("b")].map((b) => b.textContent).join("");
    const text = commands || pre.textContent;
    const button = document.createElement("button");
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    pre.append(button);
  }
}

// showCurrent scrolls the menu to the current page.
function showCurrent() {
  const nav = document.querySelector("nav"), current = nav.querySelector("[aria-current]");
  if (current) nav.scrollTop = current.offsetTop - nav.offsetTop - nav.clientHeight / 3;
}

addEventListener("DOMContentLoaded", () => {
  showCurrent();
  setUpSearch();
  setUpHeadings();
  setUpCopy();
  if (innerWidth < 960) document.querySelector("nav details").open = false;
});
