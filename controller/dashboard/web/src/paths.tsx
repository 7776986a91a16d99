// Paths: how packets get from one place to another, their backups, and what each failure on the way does.
import { useEffect, useState } from "preact/hooks";
import { Problem } from "./actors";
import type { PathFailure, Paths, Protection, Way } from "./api";
import type { Model } from "./model";
import { Badge, SwitchLink, Table, short, usePolled } from "./parts";
import { href } from "./route";

// Drawn is a line of the map from one switch to another.
export interface Drawn {
  from: string;
  to: string;
  kind: "primary" | "bad" | "backup"; // bad: of the primary path, and packets are lost if this link fails
}

// pairOf returns the two places that an item of the view topology names, as FROM..TO.
export function pairOf(id: string): [string, string] | undefined {
  const [from, to, more] = id.split("..");
  return from && to && more === undefined ? [from, to] : undefined;
}

function verdict(p: Paths): { text: string; tone: "good" | "bad" | "warn" } {
  const survived = p.failures.filter((f) => f.outcome === "delivered").length;
  if (!p.primary) return { text: "broken: there is no path", tone: "bad" };
  if (!p.installed) return { text: "unprotected: recovery does not run", tone: "bad" };
  if (p.failures.length === 0) return { text: "at the same switch", tone: "good" };
  if (survived === p.failures.length) return { text: "protected", tone: "good" };
  if (survived === 0) return { text: "unprotected", tone: "bad" };
  return { text: `unprotected from ${p.failures.length - survived} of ${p.failures.length} failures`, tone: "warn" };
}

function wayText(w: Way | null | undefined): string {
  if (!w) return "";
  const first = w.links[0]?.from?.switch;
  return first === undefined ? "the switch itself" : [first, ...w.links.map((l) => l.to?.switch)].map(short).join(" → ");
}

function failed(f: PathFailure): string {
  if (!f.link) return `switch ${short(f.switch)}`;
  const { from, to } = f.link;
  return `link ${short(from?.switch)}:${from?.port} – ${short(to?.switch)}:${to?.port}`;
}

function lines(w: Way | null | undefined, kind: Drawn["kind"]): Drawn[] {
  return w?.links.map((l) => ({ from: l.from?.switch ?? "", to: l.to?.switch ?? "", kind })) ?? [];
}

// drawn is the primary path, with the way around a failure or else the first link of each backup.
function drawn(p: Paths, around: PathFailure | undefined): Drawn[] {
  const alternative = around
    ? lines(around.way, "backup")
    : p.backups.flatMap((b): Drawn[] => (b.backup ? [{ from: b.switch, to: b.backup.switch, kind: "backup" }] : []));
  const fatal = p.failures.filter((f) => f.link && f.outcome !== "delivered");
  const primary = lines(p.primary, "primary").map((l): Drawn => {
    const bad = fatal.some((f) => f.link?.from?.switch === l.from && f.link.to?.switch === l.to);
    return bad ? { ...l, kind: "bad" } : l;
  });
  return [...primary, ...alternative];
}

// Pair is the paths between two places. It draws them on the map.
export function Pair({ m, from, to, draw }: { m: Model; from: string; to: string; draw: (list: Drawn[]) => void }) {
  const { value, error } = usePolled<Paths>("GetPaths", { from, to });
  const [chosen, choose] = useState("");
  const around = value?.failures.find((f) => failed(f) === chosen);
  useEffect(() => draw(value ? drawn(value, around) : []));
  useEffect(() => () => draw([]), []);
  if (error) return <section aria-label="Paths"><h2>{from} to {to}</h2><Problem m={m} e={error} /></section>;
  if (!value) return <p class="none">Asking …</p>;
  const v = verdict(value);
  return (
    <section aria-label="Paths">
      <h2>
        {from} to {to} <Badge text={v.text} tone={v.tone} />
      </h2>
      <p>
        {value.primary && `Primary path: ${wayText(value.primary)} (${value.primary.hops} hops). `}
        Backups are {value.disjoint}. <a href={href("topology", `${to}..${from}`)}>Other direction</a>
      </p>
      {value.stale && <p class="problem">This controller knows no leader: this may be outdated.</p>}
      {value.notes.map((n) => <p class="hint">{n}</p>)}
      <h2>If something fails on the way, before a controller acts</h2>
      <Table name="failures" rows={value.failures} id={failed} none="Nothing is between the two."
        columns={[
          { name: "What fails", of: failed },
          { name: "Packets are", of: (f) => f.outcome,
            show: (f) => <Badge text={f.outcome} tone={f.outcome === "delivered" ? "good" : "bad"} /> },
          { name: "By the way", of: (f) => wayText(f.way) },
          { name: "Hops more", of: (f) => f.extra },
          { name: "Hops later", of: (f) => f.later || "",
            show: (f) => f.later || (f.outcome === "delivered" ? "" : "no other way exists") },
          { name: "Map", of: () => "", show: (f) => f.way && (
            <button class="plain" aria-pressed={failed(f) === chosen}
              onClick={() => choose(failed(f) === chosen ? "" : failed(f))}>
              {failed(f) === chosen ? "Show backups" : "Show"}
            </button>
          ) },
        ]} />
      <h2>Backups</h2>
      <Table name="backups" rows={value.backups} id={(b) => b.switch} none="No switch forwards."
        columns={[
          { name: "Switch", of: (b) => b.switch, show: (b) => <SwitchLink id={b.switch} /> },
          { name: "Primary", of: (b) => `port ${b.primary?.port} to ${short(b.primary?.switch)}` },
          { name: "Backup", of: (b) => (b.backup ? `port ${b.backup.port} to ${short(b.backup.switch)}` : "none"),
            show: (b) => (b.backup ? `port ${b.backup.port} to ${short(b.backup.switch)}` : <Badge text="none" />) },
          { name: "Remark", of: (b) => [b.back && "back where packets come from", b.once && "for a dead link only"]
            .filter(Boolean).join(", ") },
        ]} />
    </section>
  );
}

// Protected says how the network is protected, and what is not as it should be.
export function Protected({ m }: { m: Model }) {
  const runs = [...m.controllers.values()].some((c) => c.status?.apps.includes("recovery"));
  return runs ? <Plan m={m} /> : <p class="hint">Paths are not protected: application recovery does not run.</p>;
}

function Plan({ m }: { m: Model }) {
  const { value, error } = usePolled<Protection>("GetProtection");
  if (error) return <Problem m={m} e={error} />;
  if (!value) return null;
  const behind = value.switches.filter((s) => s.up && !s.in_sync);
  return (
    <>
      <p class="hint">
        Paths:{" "}
        {value.stable ? <Badge text="protected" tone="good" /> : <Badge text="protection is changing" tone="warn" />}
        {" "}backups are {value.disjoint}
        {behind.length > 0 && "; without the plan: "}
        {behind.slice(0, 8).map((s) => <><SwitchLink id={s.switch} /> </>)}
        {behind.length > 8 && ` and ${behind.length - 8} more`}
      </p>
      {value.notes.map((n) => <p class="hint">{n}</p>)}
    </>
  );
}

// Ask takes two places, which are switches or hosts.
export function Ask({ from, to }: { from: string; to: string }) {
  const ask = (e: SubmitEvent) => {
    e.preventDefault();
    const text = new FormData(e.currentTarget as HTMLFormElement);
    const place = (name: string) => String(text.get(name) ?? "").trim();
    location.hash = href("topology", `${place("from")}..${place("to")}`);
  };
  return (
    <form class="filter" onSubmit={ask} key={from + ".." + to}>
      <label>Path from <input name="from" required defaultValue={from} placeholder="switch or host" /></label>
      <label>to <input name="to" required defaultValue={to} placeholder="switch or host" /></label>
      <button type="submit" class="plain">Show</button>
    </form>
  );
}
