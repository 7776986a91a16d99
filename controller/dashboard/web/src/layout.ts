// Where the switches of a network are drawn: first by their distances to a few of them (PivotMDS, Brandes and Pich,
// 2007), which gives the large shape at once, then by forces between neighbours, in steps that fit between two frames.
export interface Node {
  id: string;
  x: number;
  y: number;
  links: number[]; // of neighbours
}

const pivots = 24;
const steps = 100;

export class Layout {
  readonly nodes: Node[] = [];
  readonly edges: [number, number][] = [];
  readonly index = new Map<string, number>();
  private left = steps;

  // Nodes that are in an earlier layout stay where they are.
  constructor(ids: string[], links: [string, string][], earlier?: Layout) {
    for (const id of ids) {
      this.index.set(id, this.nodes.length);
      this.nodes.push({ id, x: 0, y: 0, links: [] });
    }
    const seen = new Set<string>();
    for (const [a, b] of links) {
      const i = this.index.get(a);
      const k = this.index.get(b);
      if (i === undefined || k === undefined || i === k) continue;
      const key = i < k ? `${i} ${k}` : `${k} ${i}`;
      if (seen.has(key)) continue;
      seen.add(key);
      this.edges.push([i, k]);
      this.nodes[i]?.links.push(k);
      this.nodes[k]?.links.push(i);
    }
    const known = earlier ? this.nodes.filter((n) => earlier.at(n.id)).length : 0;
    this.place();
    if (earlier && known > this.nodes.length / 2) this.keep(earlier);
  }

  at(id: string): Node | undefined {
    return this.nodes[this.index.get(id) ?? -1];
  }

  private keep(earlier: Layout): void {
    for (const n of this.nodes) {
      const was = earlier.at(n.id);
      const near = n.links.map((k) => earlier.at(this.nodes[k]?.id ?? "")).find((o) => o !== undefined);
      if (was) [n.x, n.y] = [was.x, was.y];
      else if (near) [n.x, n.y] = [near.x + noise(n.id, 1), near.y + noise(n.id, 2)];
    }
    this.left = 40;
  }

  private distances(from: number): Float64Array {
    const far = Math.ceil(Math.sqrt(this.nodes.length)) + 2; // of another part of the network
    const d = new Float64Array(this.nodes.length).fill(far);
    const queue = [from];
    d[from] = 0;
    for (let at = 0; at < queue.length; at++) {
      const i = queue[at] ?? 0;
      for (const k of this.nodes[i]?.links ?? []) {
        if (d[k] === far && k !== from) {
          d[k] = (d[i] ?? 0) + 1;
          queue.push(k);
        }
      }
    }
    return d;
  }

  private place(): void {
    const n = this.nodes.length;
    const columns: Float64Array[] = [];
    const nearest = new Float64Array(n).fill(Infinity);
    let next = 0;
    for (let p = 0; p < Math.min(pivots, n); p++) {
      const d = this.distances(next);
      columns.push(d.map((v) => v * v));
      d.forEach((v, i) => (nearest[i] = Math.min(nearest[i] ?? 0, v)));
      next = nearest.indexOf(Math.max(...nearest));
    }
    center(columns);
    const x = component(columns, undefined);
    const y = component(columns, x);
    const scale = Math.sqrt(n) * 1.2;
    this.nodes.forEach((node, i) => {
      node.x = scale * (x[i] ?? 0) + noise(node.id, 1);
      node.y = scale * (y[i] ?? 0) + noise(node.id, 2);
    });
  }

  // relax moves the nodes for so many milliseconds, and reports whether they still move.
  relax(ms: number): boolean {
    const end = performance.now() + ms;
    while (this.left > 0 && performance.now() < end) {
      this.step((0.35 * this.left) / steps + 0.02);
      this.left--;
    }
    return this.left > 0;
  }

  // step moves each node once. Only nodes nearby repel each other; a grid finds them.
  private step(most: number): void {
    const reach = 3;
    const grid = new Map<number, number[]>();
    const cell = (x: number, y: number) => Math.floor(x / reach) * 65_537 + Math.floor(y / reach);
    this.nodes.forEach((n, i) => {
      const key = cell(n.x, n.y);
      const list = grid.get(key);
      if (list) list.push(i);
      else grid.set(key, [i]);
    });
    const fx = new Float64Array(this.nodes.length);
    const fy = new Float64Array(this.nodes.length);
    this.nodes.forEach((n, i) => {
      for (const dx of [-reach, 0, reach]) {
        for (const dy of [-reach, 0, reach]) {
          for (const k of (grid.get(cell(n.x + dx, n.y + dy)) ?? []).slice(0, 32)) {
            const o = this.nodes[k];
            if (o === undefined || k === i) continue;
            const [ax, ay] = [n.x - o.x, n.y - o.y];
            const d2 = Math.max(ax * ax + ay * ay, 0.01);
            if (d2 > reach * reach) continue;
            fx[i] = (fx[i] ?? 0) + ax / d2;
            fy[i] = (fy[i] ?? 0) + ay / d2;
          }
        }
      }
      for (const k of n.links) {
        const o = this.nodes[k];
        if (o === undefined) continue;
        const d = Math.max(Math.hypot(o.x - n.x, o.y - n.y), 0.01);
        const pull = (0.4 * (d - 1)) / (d * Math.sqrt(n.links.length));
        fx[i] = (fx[i] ?? 0) + pull * (o.x - n.x);
        fy[i] = (fy[i] ?? 0) + pull * (o.y - n.y);
      }
    });
    this.nodes.forEach((n, i) => {
      const [x, y] = [fx[i] ?? 0, fy[i] ?? 0];
      const f = Math.min(1, most / Math.max(Math.hypot(x, y), 1e-9));
      n.x += x * f;
      n.y += y * f;
    });
  }

  // spacing is how far apart nodes are: if they fill the bounds evenly, or are in a row.
  spacing(): number {
    const b = this.bounds();
    const [w, h, n] = [b.right - b.left, b.bottom - b.top, this.nodes.length];
    return Math.max(Math.sqrt((w * h) / n), Math.max(w, h) / n);
  }

  bounds(): { left: number; top: number; right: number; bottom: number } {
    const b = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    for (const n of this.nodes) {
      b.left = Math.min(b.left, n.x);
      b.right = Math.max(b.right, n.x);
      b.top = Math.min(b.top, n.y);
      b.bottom = Math.max(b.bottom, n.y);
    }
    return b;
  }
}

// noise is in (-0.3, 0.3), and the same each time.
function noise(id: string, salt: number): number {
  let h = 2166136261 ^ salt;
  for (let i = 0; i < id.length; i++) h = Math.imul(h ^ id.charCodeAt(i), 16777619);
  h = Math.imul(h ^ (h >>> 15), 2246822507);
  return 0.6 * ((h >>> 0) / 2 ** 32 - 0.5);
}

function center(columns: Float64Array[]): void {
  const n = columns[0]?.length ?? 0;
  const rows = new Float64Array(n);
  for (const c of columns) c.forEach((v, i) => (rows[i] = (rows[i] ?? 0) + v / columns.length));
  const all = rows.reduce((a, b) => a + b, 0) / Math.max(n, 1);
  for (const c of columns) {
    const mean = c.reduce((a, b) => a + b, 0) / Math.max(n, 1);
    c.forEach((v, i) => (c[i] = (v - mean - (rows[i] ?? 0) + all) / -2));
  }
}

// component returns the principal one of the rows, by power iteration, without that of before.
function component(columns: Float64Array[], before: Float64Array | undefined): Float64Array {
  const n = columns[0]?.length ?? 0;
  let v = new Float64Array(n).map((_, i) => noise(String(i), before ? 4 : 3));
  for (let round = 0; round < 60; round++) {
    if (before) {
      const dot = v.reduce((a, x, i) => a + x * (before[i] ?? 0), 0);
      v = v.map((x, i) => x - dot * (before[i] ?? 0));
    }
    const weights = columns.map((c) => c.reduce((a, x, i) => a + x * (v[i] ?? 0), 0));
    const next = new Float64Array(n);
    columns.forEach((c, k) => c.forEach((x, i) => (next[i] = (next[i] ?? 0) + x * (weights[k] ?? 0))));
    const size = Math.sqrt(next.reduce((a, x) => a + x * x, 0));
    if (size < 1e-12) return v;
    v = next.map((x) => x / size);
  }
  return v;
}
