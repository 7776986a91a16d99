import type { Event } from "./api";
import type { Model } from "./model";
import { eventKey } from "./model";
import { Leaders, Missing, cost } from "./overview";
import { Facts, Table, time } from "./parts";
import { href } from "./route";

const lanes = 12; // groups in the chart; all are in the table

// Timeline shows who led when, and what each change cost.
export function Timeline({ m }: { m: Model }) {
  const list = m.events.filter((e) => e.failover);
  const moves = m.events.filter((e) => e.kind === "EVENT_KIND_MOVED");
  return (
    <>
      <h1>Timeline</h1>
      {list.length > 0 && <Chart list={list} />}
      <h2>Changes of leaders</h2>
      <Leaders list={list} />
      <h2>Moves</h2>
      <Table name="moves" rows={moves} id={eventKey} none="No move of an actor is kept."
        columns={[
          { name: "Time", of: (e) => e.time ?? "", show: (e) => <a href={href("events", eventKey(e))}>{time(e.time)}</a> },
          { name: "Actor", of: (e) => e.actor },
          { name: "Group", of: (e) => e.group },
          { name: "What", of: (e) => e.text },
        ]} />
    </>
  );
}

function Chart({ list }: { list: Event[] }) {
  const groups = [...new Set(list.map((e) => e.group))].sort((a, b) => a - b).slice(0, lanes);
  const at = (e: Event) => Date.parse(e.time ?? "");
  const first = Math.min(...list.map(at));
  const span = Math.max(Date.now() - first, 1000);
  const height = 34 * groups.length + 26;
  const x = (e: Event) => 90 + (1080 * (at(e) - first)) / span;
  return (
    <figure>
      <div class="chart" tabIndex={0} role="region" aria-label="Chart of changes of leaders">
        <svg class="timeline" viewBox={`0 0 1240 ${height}`} role="img" aria-label="When groups changed their leader. The
          table below has the same.">
          {groups.map((g, i) => (
            <g key={g}>
              <text x="4" y={34 * i + 24}>group {g}</text>
              <line x1="90" x2="1230" y1={34 * i + 20} y2={34 * i + 20} />
              {list.filter((e) => e.group === g).slice(0, 100).reverse().map((e) => (
                <g key={eventKey(e)}>
                  <circle cx={x(e)} cy={34 * i + 20} r={4 + Math.min(9, Math.sqrt(e.failover?.leaderless_ms ?? 0) / 4)} />
                  <title>{`${time(e.time)}: ${e.failover?.from || "nobody"} to ${e.controller}, ${cost(e)}`}</title>
                </g>
              ))}
            </g>
          ))}
          <text x="90" y={height - 6}>{time(new Date(first).toISOString())}</text>
          <text x="1230" y={height - 6} text-anchor="end">now</text>
        </svg>
      </div>
      <figcaption>The larger the circle, the longer no controller led the group.</figcaption>
    </figure>
  );
}

// News tells those who hear the page what has happened, in whichever view they are.
export function News({ m }: { m: Model }) {
  const [e] = m.events;
  return (
    <p class="hidden" role="status">
      {e && `${names[e.kind] ?? "Event"}: ${e.app || `group ${e.group}`}, ${e.controller}: ${e.text}`}
    </p>
  );
}

export function Failures({ m }: { m: Model }) {
  return (
    <>
      <h1>Failures of applications</h1>
      <Table name="failures" rows={m.events.filter((e) => e.kind === "EVENT_KIND_FAILED")} id={eventKey} filtered
        none="No failure of an application is kept."
        columns={[
          { name: "Time", of: (e) => e.time ?? "", show: (e) => <a href={href("events", eventKey(e))}>{time(e.time)}</a> },
          { name: "Application", of: (e) => e.app },
          { name: "Controller", of: (e) => e.controller },
          { name: "Group", of: (e) => e.group },
          { name: "What", of: (e) => e.text },
        ]} />
      <h2>Suspended actors</h2>
      <Table name="suspended actors" rows={[...m.suspended.values()]} id={(s) => s.actor} none="No actor is suspended."
        columns={[
          { name: "Actor", of: (s) => s.actor },
          { name: "Since", of: (s) => s.since ?? "", show: (s) => time(s.since) },
          { name: "Inputs that failed", of: (s) => Number(s.failed_inputs) },
          { name: "Reason", of: (s) => s.reason },
        ]} />
    </>
  );
}

const names: Record<string, string> = {
  EVENT_KIND_LEADER: "Change of the leader",
  EVENT_KIND_MOVED: "Move",
  EVENT_KIND_FAILED: "Failure of an application",
};

export function OneEvent({ m, id }: { m: Model; id: string }) {
  const e = m.events.find((o) => eventKey(o) === id);
  if (e === undefined) return <Missing what="event" id={id} />;
  return (
    <>
      <h1>{names[e.kind] ?? "Event"}</h1>
      <Facts list={[
        ["Time", time(e.time)], ["Controller", e.controller], ["Group", String(e.group)], ["Application", e.app],
        ["Actor", e.actor], ["What", e.text], ["Who led before", e.failover?.from ?? ""],
        ["Without a leader", e.failover ? cost(e) : ""], ["Term", e.failover?.term ?? ""],
        ["Switches taken over", e.failover ? String(e.failover.switches) : ""],
        ["Commands sent again", e.failover?.commands ?? ""],
      ]} />
      {e.input !== "" && <><h2>Input</h2><pre tabIndex={0} role="region" aria-label="Input">{e.input}</pre></>}
      {e.traceback !== "" && <><h2>Traceback</h2><pre tabIndex={0} role="region" aria-label="Traceback">{e.traceback}</pre></>}
    </>
  );
}
