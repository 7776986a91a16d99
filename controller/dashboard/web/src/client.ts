// The client of the API: calls, and the stream of changes. It only reads.
import type { Change, WatchResponse } from "./api";

// Refused is an answer of a controller that is an error.
export class Refused extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly leader: string,
  ) {
    super(message);
  }
}

// The token is kept here and nowhere else: it is gone when the page is closed or loaded again.
let token = "";

export function useToken(secret: string): void {
  token = secret;
}

interface Problem {
  code?: string;
  message?: string;
  details?: { debug?: { leader?: string } }[];
}

function refused(p: Problem, status: number): Refused {
  const leader = p.details?.map((d) => d.debug?.leader ?? "").find((name) => name !== "") ?? "";
  const code = p.code ?? (status === 401 ? "unauthenticated" : status === 403 ? "permission_denied" : "unknown");
  return new Refused(code, p.message ?? `status ${status}`, leader);
}

async function post(method: string, type: string, body: BodyInit, signal: AbortSignal): Promise<Response> {
  const headers: Record<string, string> = { "Content-Type": type, "Connect-Protocol-Version": "1" };
  if (token !== "") headers["Authorization"] = "Bearer " + token;
  const r = await fetch("/holdfast.v1.Cluster/" + method, { method: "POST", headers, body, signal, cache: "no-store" });
  if (!r.ok) throw refused((await r.json().catch(() => ({}))) as Problem, r.status);
  return r;
}

export async function call<T>(method: string, signal: AbortSignal, request: object = {}): Promise<T> {
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
  return (await (await post(method, "application/json", JSON.stringify(request), bounded)).json()) as T;
}

// Limits of the stream.
const maxMessage = 64 << 20; // bytes; a larger one ends the watch
const silence = 25_000; // ms; a controller says something every 10 s

function envelope(text: string): Uint8Array<ArrayBuffer> {
  const body = new TextEncoder().encode(text);
  const out = new Uint8Array(5 + body.length);
  new DataView(out.buffer).setUint32(1, body.length);
  out.set(body, 5);
  return out;
}

// Envelopes cuts a stream into messages.
export class Envelopes {
  private parts: Uint8Array[] = [];
  private size = 0;

  // add returns the messages that are complete.
  add(part: Uint8Array): { flags: number; text: string }[] {
    const list = [];
    this.parts.push(part);
    this.size += part.length;
    while (this.size >= 5) {
      const head = this.join(5);
      const length = new DataView(head.buffer, head.byteOffset).getUint32(1);
      if (length > maxMessage) throw new Error(`a message of ${length} bytes is too large`);
      if (this.size < 5 + length) break;
      const all = this.join(5 + length);
      list.push({ flags: all[0] ?? 0, text: new TextDecoder().decode(all.subarray(5, 5 + length)) });
      this.parts = [all.subarray(5 + length)];
      this.size -= 5 + length;
    }
    return list;
  }

  // join makes the first part at least this long.
  private join(least: number): Uint8Array {
    const first = this.parts[0];
    if (first !== undefined && first.length >= least) return first;
    const all = new Uint8Array(this.size);
    let at = 0;
    for (const p of this.parts) {
      all.set(p, at);
      at += p.length;
    }
    this.parts = [all];
    return all;
  }
}

// Position is where a watch can be resumed.
export interface Position {
  feed: string;
  revision: string;
}

// watch tells the changes after a position until the stream ends, which is an error.
async function watch(from: Position, told: (r: WatchResponse) => void, signal: AbortSignal): Promise<void> {
  const quiet = new AbortController();
  let timer = setTimeout(() => quiet.abort(new Error("the controller is silent")), silence);
  try {
    const body = envelope(JSON.stringify(from));
    const all = AbortSignal.any([signal, quiet.signal]);
    const reader = (await post("Watch", "application/connect+json", body, all)).body?.getReader();
    const messages = new Envelopes();
    for (;;) {
      const part = await reader?.read();
      if (part?.value === undefined) throw new Error("the controller has closed the connection");
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(new Error("the controller is silent")), silence);
      for (const { flags, text } of messages.add(part.value)) {
        if ((flags & 2) === 0) {
          told(JSON.parse(text) as WatchResponse);
          continue;
        }
        const end = JSON.parse(text) as { error?: Problem };
        throw end.error ? refused(end.error, 200) : new Error("the watch has ended");
      }
    }
  } finally {
    clearTimeout(timer);
  }
}

// Connection is whether the page gets what changes.
export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; why: string }
  | { state: "refused"; why: string };

export interface Follower {
  begins(): void; // a snapshot follows
  changes(list: Change[]): void;
  connection(c: Connection): void;
}

// follow watches until it is refused or the signal aborts, again and again, and resumes where it was cut off.
export async function follow(f: Follower, signal: AbortSignal): Promise<void> {
  let at: Position = { feed: "", revision: "0" };
  let wait = 250;
  f.connection({ state: "connecting" });
  while (!signal.aborted) {
    try {
      await watch(
        at,
        (r) => {
          if (r.snapshot) f.begins();
          at = { feed: r.feed, revision: r.revision };
          wait = 250;
          f.changes(r.changes);
          f.connection({ state: "live" });
        },
        signal,
      );
    } catch (e) {
      if (signal.aborted) return;
      const why = e instanceof Error ? e.message : String(e);
      if (e instanceof Refused && (e.code === "unauthenticated" || e.code === "permission_denied")) {
        f.connection({ state: "refused", why });
        return;
      }
      f.connection({ state: "lost", why });
    }
    await new Promise((r) => setTimeout(r, wait * (0.75 + Math.random() / 2)));
    wait = Math.min(2 * wait, 5000);
  }
}
