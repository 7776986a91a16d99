import type { Answer, Event, GroupView, SwitchInView } from "./api";
import type { Model } from "./model";
import { backlog, dashboardOf, eventKey } from "./model";
import { Badge, Facts, SwitchLink, Table, milliseconds, time } from "./parts";
import { href } from "./route";

export function Overview({ m }: { m: Model }) {
  const switches = [...m.switches.values()];
  const groups = [...m.groups.values()];
  const controllers = [...m.controllers.values()];
  const failures = m.events.filter((e) => e.kind === "EVENT_KIND_FAILED").length;
  return (
    <>
      <h1>Overview</h1>
      <ul class="tiles">
        <Share name="Controllers" good={controllers.filter((c) => c.status).length} of={controllers.length} to=""
          note="answer" />
        <Share name="Groups" good={groups.filter((g) => g.leader !== "").length} of={groups.length} to=""
          note="have a leader" />
        <Share name="Switches" good={switches.filter((s) => s.state === "up").length} of={switches.length} to="switches"
          note="are up" />
        <Tile name="Suspended actors" value={String(m.suspended.size)} bad={m.suspended.size > 0} to="failures" note="" />
        <Tile name="Failures" value={String(failures)} bad={failures > 0} to="failures" note="of applications, kept" />
      </ul>
      <section aria-labelledby="groups">
        <h2 id="groups">Groups</h2>
        <Groups list={groups} />
      </section>
      <section aria-labelledby="controllers">
        <h2 id="controllers">Controllers</h2>
        <Controllers list={controllers} />
      </section>
      <section aria-labelledby="latest">
        <h2 id="latest">Latest changes of leaders</h2>
        <Leaders list={m.events.filter((e) => e.failover).slice(0, 5)} />
      </section>
    </>
  );
}

function Share(p: { name: string; good: number; of: number; to: string; note: string }) {
  return <Tile name={p.name} value={`${p.good} of ${p.of}`} bad={p.good < p.of} to={p.to} note={p.note} />;
}

function Tile(p: { name: string; value: string; note: string; bad: boolean; to: string }) {
  return (
    <li class={p.bad ? "bad" : ""}>
      <a href={href(p.to)}>
        <span>{p.name}</span>
        <strong>{p.value} {p.bad && <b role="img" aria-label="needs attention">⚠</b>}</strong>
        <span>{p.note}</span>
      </a>
    </li>
  );
}

function Groups({ list }: { list: GroupView[] }) {
  return (
    <Table name="groups" rows={list} id={(g) => String(g.group)} none="No controller has told its groups yet."
      columns={[
        { name: "Group", of: (g) => g.group, show: (g) => <a href={href("groups", String(g.group))}>{g.group}</a> },
        { name: "Leader", of: (g) => g.leader || "no leader", show: (g) => <LeaderOf g={g} /> },
        { name: "Home", of: (g) => g.home },
        { name: "Term", of: (g) => Number(g.term) },
        { name: "Replicas", of: (g) => g.replicas.join(", ") },
        { name: "Switches", of: (g) => g.switches },
        { name: "Log index", of: (g) => Number(g.last_index) },
        { name: "For other groups", of: (g) => g.backlog.reduce((n, b) => n + b.items, 0) },
      ]} />
  );
}

function LeaderOf({ g }: { g: GroupView }) {
  return g.leader === "" ? <Badge text="no leader" /> : <strong class="leader">{g.leader}</strong>;
}

function Controllers({ list }: { list: Answer[] }) {
  return (
    <Table name="controllers" rows={list} id={(c) => c.name} none="No controller is known yet."
      columns={[
        { name: "Controller", of: (c) => c.name, show: (c) => <ControllerLink c={c} /> },
        { name: "State", of: (c) => c.status?.role ?? "no answer", show: (c) => <Badge text={c.status?.role ?? "no answer"} /> },
        { name: "API", of: (c) => c.api },
        { name: "Applications", of: (c) => c.status?.apps.join(", ") ?? "" },
        { name: "Remark", of: (c) => c.error || remark(c) },
      ]} />
  );
}

function remark(c: Answer): string {
  const said = [];
  if (c.status?.drained) said.push("drained");
  if (c.status?.learner) said.push("learner");
  if (c.status?.stale) said.push("knows no leader");
  if (c.status && c.status.hanging_handlers > 0) said.push(`${c.status.hanging_handlers} hanging handlers`);
  return said.join(", ");
}

function ControllerLink({ c }: { c: Answer }) {
  const to = dashboardOf(c);
  return to === undefined ? <>{c.name}</> : <a href={to} title={"the dashboard at " + c.name}>{c.name}</a>;
}

export function Leaders({ list }: { list: Event[] }) {
  return (
    <Table name="changes of leaders" rows={list} id={eventKey} filtered={list.length > 10}
      none="No change of a leader is kept. Controllers keep them in memory."
      columns={[
        { name: "Time", of: (e) => e.time ?? "", show: (e) => <a href={href("events", eventKey(e))}>{time(e.time)}</a> },
        { name: "Group", of: (e) => e.group },
        { name: "From", of: (e) => e.failover?.from || "unknown" },
        { name: "To", of: (e) => e.controller, show: (e) => <strong>{e.controller}</strong> },
        { name: "Without a leader", of: (e) => e.failover?.leaderless_ms ?? 0, show: (e) => cost(e) },
        { name: "Switches", of: (e) => e.failover?.switches ?? 0 },
        { name: "Commands sent again", of: (e) => Number(e.failover?.commands ?? 0) },
        { name: "Term", of: (e) => Number(e.failover?.term ?? 0) },
      ]} />
  );
}

export function cost(e: Event): string {
  const ms = e.failover?.leaderless_ms ?? 0;
  return ms === 0 ? "handed over" : milliseconds(ms);
}

export function Group({ m, id }: { m: Model; id: string }) {
  const g = m.groups.get(id);
  if (g === undefined) return <Missing what="group" id={id} />;
  return (
    <>
      <h1>Group {g.group}</h1>
      <Facts list={[
        ["Leader", <LeaderOf g={g} />], ["Home", g.home], ["Replicas", g.replicas.join(", ")], ["Term", g.term],
        ["Log index", g.last_index], ["Applied index", g.applied_index], ["Failed moves", g.failed_moves],
        ["As told by", g.by], ["Outdated, because", g.outdated], ["Drained at", g.drained_at.join(", ")],
        ["Kept for other groups", g.backlog.map((b) => `group ${b.group}: ${b.items} items`).join(", ")],
      ]} />
      <h2>Switches</h2>
      <SwitchTable list={[...m.switches.values()].filter((s) => s.group === g.group)} />
      <h2>Changes of its leader</h2>
      <Leaders list={m.events.filter((e) => e.failover && e.group === g.group)} />
    </>
  );
}

export function Switches({ m }: { m: Model }) {
  return (
    <>
      <h1>Switches</h1>
      <SwitchTable list={[...m.switches.values()]} />
    </>
  );
}

function SwitchTable({ list }: { list: SwitchInView[] }) {
  return (
    <Table name="switches" rows={list} id={(s) => s.switch} none="No switch has ever connected." filtered
      columns={[
        { name: "Switch", of: (s) => s.switch, show: (s) => <SwitchLink id={s.switch} /> },
        { name: "State", of: (s) => s.state, show: (s) => <Badge text={s.state} /> },
        { name: "Group", of: (s) => s.group },
        { name: "Master", of: (s) => s.master, show: (s) => s.master || <Badge text="none" /> },
        { name: "Role there", of: (s) => s.role },
        { name: "Guarantee", of: (s) => s.guarantee || "unknown", show: (s) => <Badge text={s.guarantee || "unknown"} /> },
        { name: "Backlog", of: backlog },
        { name: "Events", of: (s) => Number(s.total_events) },
        { name: "Commands", of: (s) => Number(s.total_commands) },
        { name: "Standbys in sync", of: (s) => s.standbys },
      ]} />
  );
}

export function Switch({ m, id }: { m: Model; id: string }) {
  const s = m.switches.get(id);
  if (s === undefined) return <Missing what="switch" id={id} />;
  const links = [...m.links.values()].filter((l) => l.from?.switch === id);
  const hosts = [...m.hosts.values()].filter((h) => h.at?.switch === id);
  return (
    <>
      <h1>Switch {s.switch}</h1>
      <p><a href={href("topology", id)}>Show it in the topology</a></p>
      <Facts list={[
        ["State", <Badge text={s.state} />], ["Group", <a href={href("groups", String(s.group))}>{s.group}</a>],
        ["Master", s.master || <Badge text="none" />], ["Role there", s.role], ["Through", s.via],
        ["Guarantee", <Badge text={s.guarantee || "unknown"} />], ["because", s.why], ["Mode", s.mode],
        ["OpenFlow", s.version], ["Connected from", s.remote], ["Epoch", s.epoch],
        ["Backlog of commands", String(backlog(s))], ["Commands issued in the epoch", s.commands_issued],
        ["Commands done in the epoch", s.commands_done], ["Events logged in the epoch", s.events_logged],
        ["All events", s.total_events], ["All commands", s.total_commands],
        ["Standbys", `${s.standbys} in sync, ${s.standbys_not_in_sync} not`],
      ]} />
      <h2>Ports</h2>
      <Table name="ports" rows={m.ports.get(id)?.ports ?? []} id={(p) => String(p.port)} filtered={false}
        none="Ports are known if application topology runs."
        columns={[
          { name: "Port", of: (p) => p.port },
          { name: "Name", of: (p) => p.name },
          { name: "MAC address", of: (p) => p.mac },
          { name: "State", of: (p) => (p.up ? "up" : "down"), show: (p) => <Badge text={p.up ? "up" : "down"} /> },
          { name: "Link to", of: (p) => other(links.find((l) => l.from?.port === p.port)?.to),
            show: (p) => <Other end={links.find((l) => l.from?.port === p.port)?.to} /> },
          { name: "Hosts", of: (p) => hosts.filter((h) => h.at?.port === p.port).map((h) => h.addresses[0] ?? h.mac).join(", ") },
        ]} />
    </>
  );
}

type End = { switch: string; port: number } | null | undefined;

function other(end: End): string {
  return end ? `${end.switch} port ${end.port}` : "";
}

function Other({ end }: { end: End }) {
  return end ? <><SwitchLink id={end.switch} /> port {end.port}</> : null;
}

export function Missing({ what, id }: { what: string; id: string }) {
  return (
    <>
      <h1>There is no {what} {id}</h1>
      <p>It is gone, or the page has not heard of it yet. <a href={href("")}>Overview</a></p>
    </>
  );
}
