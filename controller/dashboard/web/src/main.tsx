import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ActorsView, Links } from "./actors";
import { follow, useToken } from "./client";
import { Failures, News, OneEvent, Timeline } from "./events";
import { Model, dashboardOf, eventKey } from "./model";
import { Group, Missing, Overview, Switch, Switches } from "./overview";
import { href, route } from "./route";
import { Search } from "./search";
import { Tables } from "./tables";
import { Topology } from "./topology";

const views: [string, string][] = [
  ["", "Overview"], ["switches", "Switches"], ["topology", "Topology"], ["links", "Links"], ["actors", "Actors"],
  ["timeline", "Timeline"], ["failures", "Failures"], ["tables", "Tables"],
];

function View({ m }: { m: Model }) {
  const { view, item } = route();
  switch (view) {
    case "": return <Overview m={m} />;
    case "groups": return <Group m={m} id={item} />;
    case "switches": return item === "" ? <Switches m={m} /> : <Switch m={m} id={item} />;
    case "topology": return <Topology m={m} id={item} />;
    case "links": return <Links m={m} />;
    case "actors": return <ActorsView m={m} id={item} />;
    case "timeline": return <Timeline m={m} />;
    case "tables": return <Tables m={m} id={item} key={item} />;
    case "failures": return <Failures m={m} />;
    case "events": return <OneEvent m={m} id={item} />;
  }
  return <Missing what="view" id={view} />;
}

// tabOf is the entry of the menu to which what is shown belongs.
function tabOf(m: Model): string {
  const { view, item } = route();
  if (view === "groups") return "";
  if (view !== "events") return view;
  return m.events.some((e) => eventKey(e) === item && e.kind === "EVENT_KIND_FAILED") ? "failures" : "timeline";
}

function App({ m, again }: { m: Model; again: () => void }) {
  const { view, item } = route();
  const tab = tabOf(m);
  const main = useRef<HTMLElement>(null);
  const name = views.find(([v]) => v === tab)?.[1] ?? "";
  const first = useRef(true);
  useEffect(() => {
    document.title = `${item === "" ? name : item} – Holdfast`;
    if (!first.current && view !== "topology") main.current?.focus(); // as after a link to another page
    first.current = false;
  }, [view, item]);
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), main.current?.focus())}>Skip to content</a>
      <header>
        <a class="brand" href={href("")}>Holdfast</a>
        <nav aria-label="Views">
          {views.map(([v, text], i) => (
            <a href={href(v)} aria-current={v === tab ? "page" : undefined} title={`key ${i + 1}`}>{text}</a>
          ))}
        </nav>
        <Search m={m} />
        <State m={m} />
        <News m={m} />
      </header>
      <main id="main" tabIndex={-1} ref={main}>
        {m.state.state === "refused" ? <Login why={m.state.why} again={again} /> : <Body m={m} />}
      </main>
    </>
  );
}

function Body({ m }: { m: Model }) {
  return (
    <>
      {m.state.state === "lost" && <Lost m={m} why={m.state.why} />}
      {m.full && <p class="problem">There is more than this page keeps. Use the command line to see everything.</p>}
      <View m={m} key={route().view} />
    </>
  );
}

function State({ m }: { m: Model }) {
  const text = { connecting: "connecting", live: "live", lost: "no connection", refused: "token needed" }[m.state.state];
  return <p class={"state " + m.state.state} role="status">{text}</p>;
}

function Lost({ m, why }: { m: Model; why: string }) {
  const others = [...m.controllers.values()].filter((c) => c.api !== "" && c.api !== location.host);
  return (
    <div class="problem" role="alert">
      This controller does not answer ({why}). What is shown was true before.
      {others.length > 0 && " Other controllers: "}
      {others.map((c, i) => <>{i > 0 && ", "}<a href={dashboardOf(c) ?? ""}>{c.name}</a></>)}
    </div>
  );
}

// Login takes a token, which only the memory of the page keeps.
function Login({ why, again }: { why: string; again: () => void }) {
  const input = useRef<HTMLInputElement>(null);
  const enter = (e: Event) => {
    e.preventDefault();
    useToken(input.current?.value.trim() ?? "");
    again();
  };
  return (
    <form class="login" onSubmit={enter}>
      <h1>Sign in</h1>
      <p>{why}</p>
      <label>
        Token of the role viewer, from <code>holdfast token add</code>
        <input ref={input} type="password" autocomplete="off" required autofocus />
      </label>
      <button type="submit">Sign in</button>
      <p class="none">The token is not stored: it is gone when this page is closed or loaded again.</p>
    </form>
  );
}

function Root() {
  const [, tick] = useState(0);
  const [model] = useState(() => new Model(() => tick((n) => n + 1)));
  const [session, next] = useState(0);
  useEffect(() => {
    const end = new AbortController();
    void follow(model, end.signal);
    return () => end.abort();
  }, [session]);
  useEffect(() => {
    addEventListener("hashchange", () => tick((n) => n + 1));
    addEventListener("keydown", shortcut);
  }, []);
  return <App m={model} again={() => next((n) => n + 1)} />;
}

// shortcut: / searches, 1 to 8 open a view.
function shortcut(e: KeyboardEvent): void {
  const typing = e.target instanceof HTMLInputElement;
  if (typing || e.ctrlKey || e.metaKey || e.altKey) return;
  const view = views[Number(e.key) - 1];
  if (e.key === "/") {
    e.preventDefault();
    document.getElementById("search")?.focus();
  } else if (view !== undefined) {
    location.hash = href(view[0]);
  }
}

const place = document.getElementById("app");
if (place !== null) render(<Root />, place);
