// The tables of applications, and those of the consistent data store.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Key, Row, StoreNamespace, StoreRow, StoreRows, StoreTable, TableList, Tables as RowPage } from "./api";
import { Problem } from "./actors";
import type { Model } from "./model";
import { Missing } from "./overview";
import { Badge, Table, usePolled } from "./parts";
import { filter, href, route } from "./route";

const perPage = 100; // rows
const mostShown = 300; // characters of a value

// Tables is the list of tables, or one of them: app/APPLICATION/TABLE or store/NAMESPACE/TABLE.
export function Tables({ m, id }: { m: Model; id: string }) {
  const found = /^(app|store)\/(.+)\/([^/]+)$/.exec(id);
  if (id === "") return <List m={m} />;
  const [, kind, owner = "", table = ""] = found ?? [];
  if (kind === "app") return <ApplicationTable m={m} application={owner} table={table} />;
  if (kind === "store") return <StoreTableView m={m} namespace={owner} table={table} />;
  return <Missing what="table" id={id} />;
}

function List({ m }: { m: Model }) {
  const [again, ask] = useState(0);
  const { value, error } = usePolled<TableList>("ListTables", {}, again);
  const stored = value?.namespaces.flatMap((n) => n.tables.map((t): [StoreNamespace, StoreTable] => [n, t])) ?? [];
  return (
    <>
      <h1>Tables</h1>
      <p class="hint">
        What is committed, as controller {value?.controller || "…"} knows it. Counting takes a moment, so it is done
        once.{" "}
        <button class="plain" onClick={() => ask(again + 1)}>Count again</button>
      </p>
      {error && <Problem m={m} e={error} />}
      {!value && !error && <p class="none">Asking …</p>}
      {value?.stale && <p class="problem">This controller knows no leader of a group: what is here may be outdated.</p>}
      {value?.problems.map((p) => <p class="problem">{p.application}: {p.error}</p>)}
      {value && (
        <Table name="tables" rows={value.tables} id={(t) => t.application + "/" + t.table} filtered
          none="No application has anything in its tables."
          columns={[
            { name: "Application", of: (t) => t.application },
            { name: "Table", of: (t) => t.table,
              show: (t) => <a href={href("tables", `app/${t.application}/${t.table}`)}>{t.table}</a> },
            { name: "Cells", of: (t) => Number(t.cells) },
            { name: "Rows", of: (t) => Number(t.rows) },
            { name: "Bytes", of: (t) => Number(t.bytes) },
          ]} />
      )}
      <h2>Store</h2>
      {value && (
        <Table name="store" rows={stored} id={([n, t]) => n.namespace + "/" + t.table}
          none="There is no table in the consistent data store, or it does not run."
          columns={[
            { name: "Namespace", of: ([n]) => n.namespace },
            { name: "Table", of: ([, t]) => t.table,
              show: ([n, t]) => <a href={href("tables", `store/${n.namespace}/${t.table}`)}>{t.table}</a> },
            { name: "Columns", of: ([, t]) => t.columns.join(", ") },
            { name: "Refers to", of: ([, t]) => (t.refers_to ? `${t.refers_to} by ${t.through || t.columns[0]}` : "") },
            { name: "Rows", of: ([, t]) => Number(t.rows) },
            { name: "Bytes", of: ([, t]) => Number(t.bytes) },
            { name: "Newest version", of: ([, t]) => Number(t.newest_version) },
            { name: "Revision of the namespace", of: ([n]) => Number(n.revision) },
            { name: "Buckets", of: ([n]) => n.buckets || "" },
          ]} />
      )}
    </>
  );
}

// usePages asks for pages of rows whose keys begin with what the URL has.
function usePages<T extends { next_page_token: string }>(method: string, request: object) {
  const prefix = route().q;
  const [at, go] = useState<{ prefix: string; tokens: string[] }>({ prefix, tokens: [] });
  const tokens = at.prefix === prefix ? at.tokens : [];
  const token = tokens[tokens.length - 1] ?? "";
  const got = usePolled<T>(method, { ...request, key_prefix: prefix, page_size: perPage, page_token: token }, 0);
  const next = got.value?.next_page_token ?? "";
  const pages = (
    <nav class="pages" aria-label="Pages of rows">
      <button disabled={tokens.length === 0} onClick={() => go({ prefix, tokens: tokens.slice(0, -1) })}>
        Previous
      </button>
      <span>page {tokens.length + 1}</span>
      <button disabled={next === ""} onClick={() => go({ prefix, tokens: [...tokens, next] })}>Next</button>
    </nav>
  );
  return { ...got, pages: next === "" && tokens.length === 0 ? null : pages };
}

function Prefix() {
  return (
    <label class="filter">
      Keys that begin with <input type="search" value={route().q} onInput={(e) => filter(e.currentTarget.value)} />
    </label>
  );
}

function ApplicationTable({ m, application, table }: { m: Model; application: string; table: string }) {
  const { value, error, pages } = usePages<RowPage>("ListRows", { application, table });
  return (
    <Page m={m} title={`${application} / ${table}`} error={error} waits={!value} stale={value?.stale != null}>
      {value && (
        <Table name="rows" rows={value.rows} id={(r) => keyText(r.cell) + " " + keyText(r.field)}
          none="No key begins with this."
          columns={[
            { name: "Cell", of: (r: Row) => keyText(r.cell) },
            { name: "Field", of: (r: Row) => (r.field ? keyText(r.field) : "") },
            { name: "Value", of: (r: Row) => r.value, show: (r: Row) => <Value base64={r.value} /> },
          ]} />
      )}
      {pages}
    </Page>
  );
}

function StoreTableView({ m, namespace, table }: { m: Model; namespace: string; table: string }) {
  const { value, error, pages } = usePages<StoreRows>("ListStoreRows", { namespace, table });
  const column = (r: StoreRow, name: string) => r.columns.find((c) => c.name === name)?.value;
  return (
    <Page m={m} title={`${namespace} / ${table}`} error={error} waits={!value} stale={value?.stale != null}>
      {value && (
        <Table name="rows" rows={value.rows} id={(r) => r.key} none="No key begins with this."
          columns={[
            { name: "Key", of: (r: StoreRow) => r.key },
            { name: "Version", of: (r: StoreRow) => Number(r.version) },
            ...value.columns.map((name) => ({
              name,
              of: (r: StoreRow) => column(r, name) ?? "",
              show: (r: StoreRow) => <Value base64={column(r, name)} />,
            })),
          ]} />
      )}
      {pages}
    </Page>
  );
}

function Page(p: {
  m: Model;
  title: string;
  error: Error | undefined;
  waits: boolean;
  stale: boolean;
  children: ComponentChildren;
}) {
  return (
    <>
      <p class="hint"><a href={href("tables")}>All tables</a></p>
      <h1>{p.title}</h1>
      <Prefix />
      {p.stale && <Badge text="may be outdated" tone="warn" />}
      {p.error ? <Problem m={p.m} e={p.error} /> : p.waits && <p class="none">Asking …</p>}
      {p.children}
    </>
  );
}

// keyText is how the command line writes a key, and what a prefix is compared with.
function keyText(k: Key | null | undefined): string {
  if (!k) return "0";
  if (k.s !== "") return k.s;
  const a = BigInt(k.a).toString(16);
  return k.b === "0" ? a : `${a}/${k.b}`;
}

// Value shows text as it is, and other bytes in hexadecimal.
function Value({ base64 }: { base64: string | undefined }) {
  if (base64 === undefined) return <span class="none">none</span>;
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (/[\x00-\x08\x0b-\x1f\x7f]/.test(text)) throw new Error("it is not text");
  } catch {
    text = Array.from(bytes.subarray(0, mostShown), (b) => b.toString(16).padStart(2, "0")).join(" ");
  }
  return (
    <>
      <code>{text.slice(0, mostShown)}</code>
      {text.length > mostShown && <span class="none"> … {bytes.length} bytes</span>}
    </>
  );
}
