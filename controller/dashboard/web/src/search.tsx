import { useState } from "preact/hooks";
import type { Model } from "./model";
import { eventKey } from "./model";
import { time } from "./parts";
import { href } from "./route";

const most = 12; // results

interface Found {
  kind: string;
  text: string;
  to: string;
}

function find(m: Model, q: string): Found[] {
  const list: Found[] = [];
  const add = (kind: string, text: string, to: string, also = "") => {
    if (list.length < most && `${kind} ${text} ${also}`.toLowerCase().includes(q)) list.push({ kind, text, to });
  };
  for (const g of m.groups.values()) add("group", String(g.group), href("groups", String(g.group)), g.leader);
  for (const c of m.controllers.values()) add("controller", c.name, href(""), c.api);
  for (const s of m.switches.values()) add("switch", s.switch, href("switches", s.switch), s.remote);
  for (const h of m.hosts.values()) {
    add("host", [h.mac, ...h.addresses].join(" "), href("switches", h.at?.switch ?? ""));
  }
  for (const s of m.suspended.values()) add("suspended actor", s.actor, href("failures"));
  for (const e of m.events) add(time(e.time), e.text, href("events", eventKey(e)), e.app + e.actor + e.controller);
  return list;
}

// Search is a combobox: arrows choose, Enter opens, Escape closes.
export function Search({ m }: { m: Model }) {
  const [q, setQ] = useState("");
  const [at, setAt] = useState(0);
  const list = q.trim() === "" ? [] : find(m, q.trim().toLowerCase());
  const chosen = Math.min(at, list.length - 1);
  const open = (f: Found | undefined) => {
    if (f === undefined) return;
    location.hash = f.to;
    setQ("");
    document.getElementById("search")?.blur();
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "ArrowDown") setAt(Math.min(chosen + 1, list.length - 1));
    else if (e.key === "ArrowUp") setAt(Math.max(chosen - 1, 0));
    else if (e.key === "Enter") open(list[Math.max(chosen, 0)]);
    else if (e.key === "Escape") setQ("");
    else return;
    e.preventDefault();
  };
  return (
    <search>
      <label class="hidden" for="search">Search switches, hosts, groups, events</label>
      <input id="search" type="text" role="combobox" placeholder="Search  ( / )" autocomplete="off" value={q}
        aria-expanded={list.length > 0} aria-controls="found" aria-autocomplete="list"
        aria-activedescendant={list.length > 0 ? `found${Math.max(chosen, 0)}` : ""}
        onInput={(e) => (setQ(e.currentTarget.value), setAt(0))} onKeyDown={key} />
      <ul id="found" role="listbox" aria-label="Results" hidden={q.trim() === ""}>
        {list.map((f, i) => (
          <li id={`found${i}`} role="option" aria-selected={i === Math.max(chosen, 0)} onMouseDown={() => open(f)}>
            <span>{f.kind}</span> {f.text}
          </li>
        ))}
        {list.length === 0 && <li role="option" aria-selected={false} aria-disabled>Nothing is found.</li>}
      </ul>
    </search>
  );
}
