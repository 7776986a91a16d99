// The model is what the page knows of the cluster: what the stream has told.
import type { Answer, Change, Event, GroupView, Host, Link, SuspendedStatus, SwitchInView, TopologySwitch } from "./api";
import type { Connection, Follower } from "./client";

// Limits of what the page keeps; what is beyond is not shown.
const maxThings = 100_000; // of each kind
const maxEvents = 1000;

export class Model implements Follower {
  readonly controllers = new Map<string, Answer>();
  readonly groups = new Map<string, GroupView>();
  readonly switches = new Map<string, SwitchInView>();
  readonly suspended = new Map<string, SuspendedStatus>();
  readonly ports = new Map<string, TopologySwitch>();
  readonly links = new Map<string, Link>();
  readonly hosts = new Map<string, Host>();
  events: Event[] = []; // the newest first
  full = false; // there was no room for something
  shape = 0; // grows when switches or links come and go
  state: Connection = { state: "connecting" };
  private due = false;

  constructor(private readonly changed: () => void) {}

  begins(): void {
    const { controllers, groups, switches, suspended, ports, links, hosts } = this;
    for (const m of [controllers, groups, switches, suspended, ports, links, hosts]) m.clear();
    this.full = false;
    this.shape++;
  }

  connection(c: Connection): void {
    this.state = c;
    this.tell();
  }

  changes(list: Change[]): void {
    for (const c of list) this.apply(c);
    this.tell();
  }

  // tell redraws once for all that happens before the next frame.
  private tell(): void {
    if (this.due) return;
    this.due = true;
    setTimeout(() => {
      this.due = false;
      this.changed();
    }, 16);
  }

  private set<V>(to: Map<string, V>, key: string, value: V): void {
    if (!to.has(key)) {
      if (to.size >= maxThings) {
        this.full = true;
        return;
      }
      this.shape++;
    }
    to.set(key, value);
  }

  private apply(c: Change): void {
    if (c.controller) this.set(this.controllers, c.controller.name, c.controller);
    else if (c.group) this.set(this.groups, String(c.group.group), c.group);
    else if (c.switch) this.set(this.switches, c.switch.switch, c.switch);
    else if (c.suspended) this.set(this.suspended, c.suspended.actor, c.suspended);
    else if (c.ports) this.set(this.ports, c.ports.switch, c.ports);
    else if (c.link) this.set(this.links, linkKey(c.link), c.link);
    else if (c.host) this.set(this.hosts, c.host.mac, c.host);
    else if (c.event) this.event(c.event);
    else if (c.removed && this.of(c.removed.kind)?.delete(c.removed.key)) this.shape++;
  }

  private of(kind: string): Map<string, unknown> | undefined {
    return {
      KIND_CONTROLLER: this.controllers as Map<string, unknown>,
      KIND_GROUP: this.groups,
      KIND_SWITCH: this.switches,
      KIND_SUSPENDED: this.suspended,
      KIND_PORTS: this.ports,
      KIND_LINK: this.links,
      KIND_HOST: this.hosts,
    }[kind];
  }

  private event(e: Event): void {
    const at = this.events.findIndex((o) => Date.parse(o.time ?? "") <= Date.parse(e.time ?? ""));
    if (this.events.some((o) => eventKey(o) === eventKey(e))) return;
    this.events.splice(at < 0 ? this.events.length : at, 0, e);
    this.events.length = Math.min(this.events.length, maxEvents);
  }
}

export function linkKey(l: Link): string {
  return `${l.from?.switch}:${l.from?.port}->${l.to?.switch}:${l.to?.port}`;
}

export function eventKey(e: Event): string {
  return `${e.controller}-${e.number}`;
}

// backlog is how many commands a switch has not executed yet.
export function backlog(s: SwitchInView): number {
  return Math.max(0, Number(s.commands_issued) - Number(s.commands_done));
}

// dashboardOf is the address of the page at another controller.
export function dashboardOf(c: Answer | undefined): string | undefined {
  return c && c.api !== "" ? `${location.protocol}//${c.api}/dashboard/${location.hash}` : undefined;
}
