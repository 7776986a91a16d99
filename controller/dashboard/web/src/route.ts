// Each view and each thing has a URL: #/view/thing?q=filter.
export interface Route {
  view: string;
  item: string;
  q: string;
}

export function route(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view = "", ...item] = path.split("/");
  return { view, item: decoded(item.join("/")), q: new URLSearchParams(query).get("q") ?? "" };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function href(view: string, item = "", q = ""): string {
  return `#/${view}${item === "" ? "" : "/" + encodeURIComponent(item)}${q === "" ? "" : "?q=" + encodeURIComponent(q)}`;
}

// filter changes what is filtered for, without an entry in the history for each letter.
export function filter(q: string): void {
  const { view, item } = route();
  history.replaceState(null, "", href(view, item, q));
  dispatchEvent(new HashChangeEvent("hashchange"));
}
