import { useEffect, useRef } from "preact/hooks";
import { Layout } from "./layout";
import type { Model } from "./model";
import { SwitchLink, short } from "./parts";
import { Ask, Pair, Protected, pairOf } from "./paths";
import type { Drawn } from "./paths";
import { href } from "./route";

const hues = 8; // colors of groups; further groups have the color of an earlier one

// Topology draws the switches and links. What it shows is also in the tables of switches and links.
export function Topology({ m, id }: { m: Model; id: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawing = useRef<Drawing | null>(null);
  useEffect(() => {
    if (canvas.current === null) return;
    const d = new Drawing(canvas.current, m);
    drawing.current = d;
    return () => d.close();
  }, [m]);
  const pair = pairOf(id);
  useEffect(() => drawing.current?.show((pair ?? [id]).map((p) => (m.switches.has(p) ? p : p.padStart(16, "0")))));
  const s = m.switches.get(id);
  const groups = [...new Set([...m.switches.values()].map((o) => o.group))].sort((a, b) => a - b).slice(0, hues);
  return (
    <>
      <h1>Topology</h1>
      <p class="hint">
        {m.switches.size} switches, {Math.ceil(m.links.size / 2)} links. Drag or use the arrow keys to move, the wheel
        or + and − to zoom, 0 to see all. Click a switch, and another one with Shift, for the paths between them. The
        same as tables: <a href={href("switches")}>switches</a>,{" "}
        <a href={href("links")}>links</a>.
      </p>
      <Protected m={m} />
      <Ask from={pair?.[0] ?? id} to={pair?.[1] ?? ""} />
      <div class={pair ? "topology pair" : "topology"}>
        <canvas ref={canvas} tabIndex={0} role="img" aria-label={`Map of ${m.switches.size} switches. Tables of
          switches and links have the same.`} />
        {id !== "" && !pair && (
          <aside aria-label="Selected switch">
            <h2><SwitchLink id={id} /></h2>
            {s ? (
              <p>{s.state}, group {s.group}, master {s.master || "none"}, {s.guarantee || "guarantee unknown"}</p>
            ) : <p>unknown</p>}
            <a href={href("topology")}>Close</a>
          </aside>
        )}
      </div>
      <ul class="legend">
        {groups.map((g) => <li><span class={`dot group${g % hues}`} /> group {g}</li>)}
        <li><span class="dot down" /> not up</li>
        <li><span class="line down" /> link down</li>
        {pair && <li><span class="line primary" /> primary path, red where its loss loses packets</li>}
        {pair && <li><span class="line backup" /> backup</li>}
      </ul>
      {pair && <Pair m={m} from={pair[0]} to={pair[1]} key={id} draw={(list) => drawing.current?.route(list)} />}
    </>
  );
}

type View = [scale: number, left: number, top: number];

class Drawing {
  private layout: Layout;
  private shape = -1;
  private scale = 0; // pixels; 0: all is to be seen
  private x = 0;
  private y = 0;
  private selected: string[] = [];
  private routes: Drawn[] = [];
  private dirty = true;
  private readonly down = new Set<number>(); // edges
  private readonly layer = document.createElement("canvas"); // with the links
  private drawn: View = [1, 0, 0]; // how the layer was drawn
  private drawnAt = -Infinity;
  private cost = 0; // ms, of drawing it
  private readonly end = new AbortController();
  private readonly colors: Record<string, string> = {};

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly m: Model,
  ) {
    this.layout = new Layout([], []);
    const { signal } = this.end;
    const on = <K extends keyof HTMLElementEventMap>(kind: K, f: (e: HTMLElementEventMap[K]) => void) =>
      canvas.addEventListener(kind, f, { signal, passive: false });
    on("wheel", (e) => {
      e.preventDefault();
      this.zoom(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY);
    });
    on("keydown", (e) => this.key(e));
    this.drag(on);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", () => this.palette(), { signal });
    const size = new ResizeObserver(() => (this.dirty = true));
    size.observe(canvas);
    signal.addEventListener("abort", () => size.disconnect());
    this.palette();
    const frame = () => {
      if (signal.aborted) return;
      this.frame();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  close(): void {
    this.end.abort();
  }

  // show is called after each change of the model.
  show(selected: string[]): void {
    this.selected = selected;
    this.dirty = true;
    if (this.shape !== this.m.shape) this.arrange();
    const dead = new Set<string>();
    for (const l of this.m.links.values()) {
      if (!l.up) dead.add(`${l.from?.switch} ${l.to?.switch}`).add(`${l.to?.switch} ${l.from?.switch}`);
    }
    this.down.clear();
    if (dead.size === 0) return;
    const { nodes, edges } = this.layout;
    edges.forEach(([i, k], e) => dead.has(`${nodes[i]?.id} ${nodes[k]?.id}`) && this.down.add(e));
  }

  // route draws paths over the links.
  route(list: Drawn[]): void {
    this.routes = list;
    this.dirty = true;
  }

  private arrange(): void {
    this.shape = this.m.shape;
    const ids = [...new Set([...this.m.switches.keys(), ...this.m.ports.keys()])];
    const links = [...this.m.links.values()].map((l): [string, string] => [l.from?.switch ?? "", l.to?.switch ?? ""]);
    this.layout = new Layout(ids, links, this.layout);
    delete this.canvas.dataset["settled"];
  }

  private palette(): void {
    const style = getComputedStyle(this.canvas);
    for (const name of ["text", "line", "bad", "surface", "accent", "warn", ...Array.from({ length: hues }, (_, i) => `group${i}`)]) {
      this.colors[name] = style.getPropertyValue("--" + name).trim();
    }
    this.dirty = true;
  }

  private drag(on: <K extends keyof HTMLElementEventMap>(kind: K, f: (e: HTMLElementEventMap[K]) => void) => void) {
    let from: { x: number; y: number; far: boolean } | null = null;
    on("pointerdown", (e) => {
      from = { x: e.offsetX, y: e.offsetY, far: false };
      this.canvas.setPointerCapture(e.pointerId);
    });
    on("pointermove", (e) => {
      if (from === null) return;
      if (!from.far && Math.hypot(e.offsetX - from.x, e.offsetY - from.y) < 4) return;
      this.move(e.offsetX - from.x, e.offsetY - from.y);
      from = { x: e.offsetX, y: e.offsetY, far: true };
    });
    on("pointerup", (e) => {
      const clicked = from !== null && !from.far ? this.nearest(e.offsetX, e.offsetY) : undefined;
      from = null;
      if (clicked === undefined) return;
      const [first = ""] = this.selected;
      const second = e.shiftKey && first !== "" && first !== clicked;
      location.hash = href("topology", second ? `${first}..${clicked}` : clicked);
    });
    on("pointercancel", () => (from = null));
  }

  private key(e: KeyboardEvent): void {
    const [w, h] = [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    const act: Record<string, () => void> = {
      ArrowLeft: () => this.move(60, 0),
      ArrowRight: () => this.move(-60, 0),
      ArrowUp: () => this.move(0, 60),
      ArrowDown: () => this.move(0, -60),
      "+": () => this.zoom(1.3, w, h),
      "-": () => this.zoom(1 / 1.3, w, h),
      "0": () => (this.scale = 0),
    };
    const f = act[e.key];
    if (f === undefined || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    e.stopPropagation();
    f();
    this.dirty = true;
  }

  private move(dx: number, dy: number): void {
    this.fix();
    this.x += dx;
    this.y += dy;
    this.dirty = true;
  }

  private zoom(by: number, x: number, y: number): void {
    this.fix();
    const scale = Math.min(400, Math.max(1, this.scale * by));
    this.x = x - ((x - this.x) * scale) / this.scale;
    this.y = y - ((y - this.y) * scale) / this.scale;
    this.scale = scale;
    this.dirty = true;
  }

  // fix ends that all is to be seen.
  private fix(): void {
    if (this.scale === 0) [this.scale, this.x, this.y] = this.fitting();
  }

  private fitting(): View {
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const b = this.layout.bounds();
    const scale = Math.min(120, (w - 60) / Math.max(b.right - b.left, 1), (h - 60) / Math.max(b.bottom - b.top, 1));
    return [scale, w / 2 - (scale * (b.left + b.right)) / 2, h / 2 - (scale * (b.top + b.bottom)) / 2];
  }

  private nearest(x: number, y: number): string | undefined {
    const [scale, left, top] = this.scale === 0 ? this.fitting() : [this.scale, this.x, this.y];
    let best: string | undefined;
    let least = 14;
    for (const n of this.layout.nodes) {
      const d = Math.hypot(n.x * scale + left - x, n.y * scale + top - y);
      if (d < least) [best, least] = [n.id, d];
    }
    return best;
  }

  private frame(): void {
    const moves = this.layout.relax(6);
    if (!moves) this.canvas.dataset["settled"] = "yes";
    if (!moves && !this.dirty) return;
    const due = performance.now() - this.drawnAt > 6 * this.cost; // drawing links takes a part of the time only
    if (moves && !due) return;
    const ratio = devicePixelRatio;
    const [w, h] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const resized = this.canvas.width !== Math.round(w * ratio) || this.canvas.height !== Math.round(h * ratio);
    for (const c of resized ? [this.canvas, this.layer] : []) {
      c.width = Math.round(w * ratio);
      c.height = Math.round(h * ratio);
    }
    const to = this.canvas.getContext("2d");
    if (to === null || w === 0 || this.layout.nodes.length === 0) return;
    const view: View = this.scale === 0 ? this.fitting() : [this.scale, this.x, this.y];
    this.dirty = moves || !due;
    if (due || resized) this.links(view, ratio);
    // Links that are not drawn again yet are moved and scaled as a picture.
    const by = view[0] / this.drawn[0];
    to.setTransform(1, 0, 0, 1, 0, 0);
    to.clearRect(0, 0, this.canvas.width, this.canvas.height);
    to.setTransform(by, 0, 0, by, ratio * (view[1] - by * this.drawn[1]), ratio * (view[2] - by * this.drawn[2]));
    to.drawImage(this.layer, 0, 0);
    to.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.paths(to, view);
    this.switches(to, view);
    this.canvas.dataset["drawn"] = String(this.layout.nodes.length); // a test measures how long that takes
  }

  private links([scale, left, top]: View, ratio: number): void {
    const to = this.layer.getContext("2d", { willReadFrequently: true });
    if (to === null) return;
    const began = performance.now();
    to.setTransform(1, 0, 0, 1, 0, 0);
    to.clearRect(0, 0, this.layer.width, this.layer.height);
    to.setTransform(ratio, 0, 0, ratio, 0, 0);
    for (const dead of [false, true]) {
      to.strokeStyle = this.colors[dead ? "bad" : "line"] ?? "gray";
      to.lineWidth = dead ? 2.5 : scale < 12 ? 0.7 : 1.4;
      to.setLineDash(dead ? [5, 4] : []);
      to.globalAlpha = dead ? 1 : Math.min(1, Math.max(0.12, 2500 / this.layout.edges.length));
      this.layout.edges.forEach(([i, k], e) => {
        const [a, b] = [this.layout.nodes[i], this.layout.nodes[k]];
        if (!a || !b || this.down.has(e) !== dead) return;
        to.beginPath(); // one path of thousands of lines takes ten times as long
        to.moveTo(a.x * scale + left, a.y * scale + top);
        to.lineTo(b.x * scale + left, b.y * scale + top);
        to.stroke();
      });
    }
    to.globalAlpha = 1;
    to.getImageData(0, 0, 1, 1); // so that all is drawn when the time is taken
    this.drawn = [scale, left, top];
    this.drawnAt = performance.now();
    this.cost = this.drawnAt - began;
  }

  private paths(to: CanvasRenderingContext2D, [scale, left, top]: View): void {
    if (this.routes.length === 0) return;
    const nodes = new Map(this.layout.nodes.map((n) => [n.id, n]));
    const looks = { primary: ["accent", 5, []], bad: ["bad", 5, []], backup: ["warn", 3, [8, 6]] } as const;
    for (const r of this.routes) {
      const [a, b] = [nodes.get(r.from), nodes.get(r.to)];
      if (!a || !b) continue;
      const [color, width, dash] = looks[r.kind];
      to.strokeStyle = this.colors[color] ?? "gray";
      to.lineWidth = width;
      to.setLineDash([...dash]);
      to.beginPath();
      to.moveTo(a.x * scale + left, a.y * scale + top);
      to.lineTo(b.x * scale + left, b.y * scale + top);
      to.stroke();
    }
    to.setLineDash([]);
  }

  private switches(to: CanvasRenderingContext2D, [scale, left, top]: View): void {
    const r = Math.min(11, Math.max(2.5, scale / 5));
    for (const n of this.layout.nodes) this.node(to, n.id, n.x * scale + left, n.y * scale + top, r);
    const longest = this.layout.nodes.reduce((most, n) => Math.max(most, short(n.id).length), 0);
    if (scale * this.layout.spacing() < Math.max(20, 8 * longest + 4)) return; // names would cover each other
    to.font = "12px system-ui, sans-serif";
    to.textAlign = "center";
    to.fillStyle = this.colors["text"] ?? "gray";
    for (const n of this.layout.nodes) {
      to.fillText(short(n.id), n.x * scale + left, n.y * scale + top + r + (this.selected.includes(n.id) ? 19 : 14));
    }
  }

  private node(to: CanvasRenderingContext2D, id: string, x: number, y: number, r: number): void {
    if (x < -r || y < -r || x > this.canvas.clientWidth + r || y > this.canvas.clientHeight + r) return;
    const s = this.m.switches.get(id);
    to.beginPath();
    to.arc(x, y, r, 0, 2 * Math.PI);
    if (s?.state === "up") {
      to.fillStyle = this.colors[`group${s.group % hues}`] ?? "gray";
      to.fill();
    } else {
      to.fillStyle = this.colors["surface"] ?? "white";
      to.fill();
      to.strokeStyle = this.colors["bad"] ?? "red";
      to.lineWidth = 2;
      to.stroke();
    }
    if (!this.selected.includes(id)) return;
    to.beginPath();
    to.arc(x, y, r + 5, 0, 2 * Math.PI);
    to.strokeStyle = this.colors["text"] ?? "black";
    to.lineWidth = 2;
    to.stroke();
  }
}
