import type { ActorView, Actors, LinkReport, Matrix, WatchedLink } from "./api";
import type { Model } from "./model";
import { dashboardOf, linkKey } from "./model";
import { Missing } from "./overview";
import { Badge, Facts, SwitchLink, Table, milliseconds, time, usePolled } from "./parts";
import { href } from "./route";
import { Refused } from "./client";

export function ActorsView({ m, id }: { m: Model; id: string }) {
  const actors = usePolled<Actors>("ListActors");
  const one = actors.value?.actors.find((a) => a.actor === id);
  if (id !== "" && actors.value) return one ? <Actor a={one} /> : <Missing what="actor among the busiest" id={id} />;
  return (
    <>
      <h1>Actors</h1>
      {actors.error && <Problem m={m} e={actors.error} />}
      {actors.value && (
        <Table name="actors" rows={actors.value.actors} id={(a) => a.actor} filtered none="No actor has done anything yet."
          columns={[
            { name: "Actor", of: (a) => a.actor, show: (a) => <a href={href("actors", a.actor)}>{a.actor}</a> },
            { name: "Application", of: (a) => a.app || "switch" },
            { name: "Group", of: (a) => a.group },
            { name: "Leader", of: (a) => a.leader },
            { name: "Inputs", of: (a) => Number(a.inputs) },
            { name: "Outputs", of: (a) => Number(a.outputs) },
            { name: "Failures", of: (a) => Number(a.failures) },
            { name: "Busy (ms)", of: (a) => Math.round(a.busy_ms) },
            { name: "Bytes", of: (a) => Number(a.bytes) },
            { name: "Stays", of: (a) => a.stays },
          ]} />
      )}
      <h2>Messages between controllers</h2>
      <MatrixTable m={m} />
    </>
  );
}

function Actor({ a }: { a: ActorView }) {
  return (
    <>
      <h1>Actor {a.actor}</h1>
      <Facts list={[
        ["Application", a.app], ["Switch", a.switch && <SwitchLink id={a.switch} />],
        ["Group", <a href={href("groups", String(a.group))}>{a.group}</a>], ["Leader", a.leader], ["Inputs", a.inputs],
        ["Outputs", a.outputs], ["Failures", a.failures], ["Late messages", a.late], ["Dropped messages", a.dropped],
        ["In handlers", milliseconds(a.busy_ms)], ["Bytes of its cells", a.bytes], ["Stays, because it is", a.stays],
      ]} />
      <h2>Messages with other actors</h2>
      <Table name="peers" rows={a.peers} id={(p) => p.actor} none="It has exchanged none."
        columns={[
          { name: "Actor", of: (p) => p.actor, show: (p) => <a href={href("actors", p.actor)}>{p.actor}</a> },
          { name: "Sent", of: (p) => Number(p.sent) },
          { name: "Received", of: (p) => Number(p.received) },
        ]} />
    </>
  );
}

const most = 32; // controllers in the matrix

function MatrixTable({ m }: { m: Model }) {
  const { value, error } = usePolled<Matrix>("GetMatrix");
  if (error) return <Problem m={m} e={error} />;
  if (!value) return <p class="none">Asking …</p>;
  if (value.cells.length === 0) return <p class="none">Actors have exchanged no messages yet.</p>;
  const names = [...new Set(value.cells.flatMap((c) => [c.from, c.to]))].sort().slice(0, most);
  const top = Math.max(1, ...value.cells.map((c) => Number(c.messages)));
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of messages between controllers">
      <table class="matrix">
        <thead>
          <tr><th scope="col">from \ to</th>{names.map((n) => <th scope="col">{n}</th>)}</tr>
        </thead>
        <tbody>
          {names.map((from) => (
            <tr>
              <th scope="row">{from}</th>
              {names.map((to) => {
                const n = Number(value.cells.find((c) => c.from === from && c.to === to)?.messages ?? 0);
                return <td class={`number heat${Math.round((4 * Math.log1p(n)) / Math.log1p(top))}`}>{n}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

// Problem says why there is no answer, and which controller has it.
export function Problem({ m, e }: { m: Model; e: Error }) {
  const leader = e instanceof Refused ? e.leader : "";
  const to = dashboardOf(m.controllers.get(leader));
  return (
    <p class="problem" role="alert">
      {e.message} {to && <a href={to}>Open the dashboard at {leader}</a>}
    </p>
  );
}

export function Links({ m }: { m: Model }) {
  const { value, error } = usePolled<LinkReport>("ListLinks");
  const missing = error instanceof Refused && error.code === "not_found";
  return (
    <>
      <h1>Links</h1>
      {value && <Watched list={value.links} />}
      {error && !missing && <Problem m={m} e={error} />}
      {missing && <p class="none">BFD watches links if application liveness runs. These are what topology has found:</p>}
      {!value && (
        <Table name="links" rows={[...m.links.values()]} id={linkKey} filtered
          none="Links are known if application topology runs."
          columns={[
            { name: "From", of: (l) => `${l.from?.switch}:${l.from?.port}`,
              show: (l) => <><SwitchLink id={l.from?.switch ?? ""} /> port {l.from?.port}</> },
            { name: "To", of: (l) => `${l.to?.switch}:${l.to?.port}`,
              show: (l) => <><SwitchLink id={l.to?.switch ?? ""} /> port {l.to?.port}</> },
            { name: "State", of: (l) => (l.up ? "up" : "down"), show: (l) => <Badge text={l.up ? "up" : "down"} /> },
            { name: "Both directions", of: (l) => (l.bidirectional ? "yes" : "no") },
            { name: "Since", of: (l) => l.since ?? "", show: (l) => time(l.since) },
            { name: "Reason", of: (l) => l.reason },
          ]} />
      )}
    </>
  );
}

function ends(l: WatchedLink): string {
  return l.ends.map((e) => `${e.switch}:${e.port}`).join(" – ");
}

function Watched({ list }: { list: WatchedLink[] }) {
  return (
    <Table name="links" rows={list} id={ends} filtered none="No link is known."
      columns={[
        { name: "Link", of: ends, show: (l) => l.ends.map((e) => <div><SwitchLink id={e.switch} /> port {e.port}</div>) },
        { name: "State", of: (l) => (l.up ? "up" : "down"), show: (l) => <Badge text={l.up ? "up" : "down"} /> },
        { name: "BFD", of: (l) => l.ends.map((e) => e.bfd_state || "off").join(" "),
          show: (l) => l.ends.map((e) => <div><Badge text={e.bfd_state || "off"} /></div>) },
        { name: "Interval (ms)", of: (l) => l.interval_ms },
        { name: "Round trip", of: (l) => (l.rtt_ms == null ? "" : milliseconds(l.rtt_ms)) },
        { name: "False alarms", of: (l) => l.false_alarms },
        { name: "Flaps", of: (l) => l.ends.reduce((n, e) => n + e.flaps, 0) },
        { name: "Since", of: (l) => l.since ?? "", show: (l) => time(l.since) },
        { name: "Remark", of: (l) => l.reason || l.ends.map((e) => e.why).filter((w) => w !== "").join("; ") },
      ]} />
  );
}
