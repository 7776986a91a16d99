// Parts that several views use.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, Refused } from "./client";
import { filter, href, route } from "./route";

const perPage = 100; // rows

export interface Column<R> {
  name: string;
  of: (r: R) => string | number; // to sort by, to filter by, and to show unless show is there
  show?: (r: R) => ComponentChildren;
}

// Table shows a page of the rows that contain what is filtered for.
export function Table<R>(p: {
  name: string;
  rows: R[];
  columns: Column<R>[];
  id: (r: R) => string;
  none: string;
  filtered?: boolean;
}) {
  const [page, setPage] = useState(0);
  const [sort, setSort] = useState<{ by: number; down: boolean } | null>(null);
  const q = p.filtered ? route().q.toLowerCase() : "";
  let rows = q === "" ? p.rows : p.rows.filter((r) => p.columns.some((c) => String(c.of(r)).toLowerCase().includes(q)));
  const column = sort === null ? undefined : p.columns[sort.by];
  if (column !== undefined) {
    rows = [...rows].sort((a, b) => (sort?.down ? -1 : 1) * order(column.of(a), column.of(b)));
  }
  const last = Math.max(0, Math.ceil(rows.length / perPage) - 1);
  const at = Math.min(page, last);
  const press = (i: number) => setSort(sort?.by === i ? { by: i, down: !sort.down } : { by: i, down: false });
  return (
    <>
      {p.filtered && (
        <label class="filter">
          Filter <input type="search" value={route().q} onInput={(e) => filter(e.currentTarget.value)} />
          <span class="count" role="status">{q === "" ? rows.length : `${rows.length} of ${p.rows.length}`}</span>
        </label>
      )}
      {rows.length === 0 ? (
        <p class="none">{p.rows.length === 0 ? p.none : "Nothing contains this text."}</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={"Table of " + p.name}>
          <table>
            <thead>
              <tr>
                {p.columns.map((c, i) => (
                  <th scope="col" aria-sort={sort?.by !== i ? "none" : sort.down ? "descending" : "ascending"}>
                    <button onClick={() => press(i)}>{c.name}</button>
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.slice(at * perPage, (at + 1) * perPage).map((r) => (
                <tr key={p.id(r)}>
                  {p.columns.map((c) => (
                    <td class={typeof c.of(r) === "number" ? "number" : ""}>{(c.show ?? c.of)(r)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {last > 0 && (
        <nav class="pages" aria-label={"Pages of " + p.name}>
          <button disabled={at === 0} onClick={() => setPage(at - 1)}>Previous</button>
          <span role="status">{`page ${at + 1} of ${last + 1}`}</span>
          <button disabled={at === last} onClick={() => setPage(at + 1)}>Next</button>
        </nav>
      )}
    </>
  );
}

function order(a: string | number, b: string | number): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}

const good = ["up", "master", "leader", "exactly-once", "running"];
const bad = ["down", "unreachable", "no leader", "none", "failed", "no answer"];

// Badge shows a state. Its text says it, too: nothing depends on the color.
export function Badge({ text, tone }: { text: string; tone?: "good" | "bad" | "warn" }) {
  const kind = tone ?? (good.includes(text) ? "good" : bad.includes(text) ? "bad" : "");
  return <span class={"badge " + kind}>{text}</span>;
}

export function Facts({ list }: { list: [string, ComponentChildren][] }) {
  return (
    <dl class="facts">
      {list
        .filter(([, value]) => value !== "" && value !== undefined && value !== null)
        .map(([name, value]) => (
          <div>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

// short is a datapath id without the zeros before it.
export function short(id: string | undefined): string {
  return id?.replace(/^0+(?=.)/, "") ?? "";
}

export function SwitchLink({ id }: { id: string }) {
  return <a href={href("switches", id)}>{id}</a>;
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export function time(at: string | null | undefined): string {
  return at ? clock.format(new Date(at)) : "";
}

export function milliseconds(ms: number): string {
  return ms >= 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${ms >= 100 ? ms.toFixed(0) : ms.toFixed(1)} ms`;
}

// usePolled asks again every two seconds, while the view is shown and the page is visible. If it asks once, it does so
// again when that number changes.
export function usePolled<T>(method: string, request: object = {}, once?: number) {
  const [got, set] = useState<{ value?: T; error?: Refused | Error }>({});
  useEffect(() => {
    const end = new AbortController();
    const ask = async () => {
      while (!end.signal.aborted) {
        if (!document.hidden || once !== undefined) {
          try {
            set({ value: await call<T>(method, end.signal, request) });
          } catch (e) {
            if (!end.signal.aborted) set({ error: e instanceof Error ? e : new Error(String(e)) });
          }
        }
        if (once !== undefined) return;
        await new Promise((r) => setTimeout(r, 2000));
      }
    };
    void ask();
    return () => end.abort();
  }, [method, JSON.stringify(request), once]);
  return got;
}
