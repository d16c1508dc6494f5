"use strict";
(() => {
  const AT_ONCE = 100;
  const FILTERS = ["agent", "model", "verdict", "language", "domain", "difficulty"];
  const NUMBERS = new Set(["sample", "steps", "tokens", "cost", "seconds"]);
  const NONE = "\u0000";
  const COLUMNS = [
    ["verdict", "Verdict"], ["instruction", "Instruction"], ["repository", "Repository"], ["agent", "Agent"],
    ["model", "Model"], ["sample", "Sample"], ["language", "Language"], ["domain", "Domain"],
    ["difficulty", "Difficulty"], ["steps", "Steps"], ["tokens", "Tokens"], ["cost", "Cost, $"],
    ["seconds", "Seconds"], ["stopped", "Ended by"],
  ];
  const byId = (id) => document.getElementById(id);
  const { attempts, instances, lost } = JSON.parse(byId("data").textContent);
  const words = new Intl.Collator(undefined, { numeric: true });

  attempts.forEach((one, place) => {
    const instance = instances[one.instance];
    Object.assign(one, instance, { place });
    one.searched = [one.id, one.instance, one.agent, one.model, one.verdict, one.stopped, one.commands,
      ...Object.values(instance)].join("\n").toLowerCase();
  });
  const used = (name) => attempts.some((one) => one[name] !== null && one[name] !== "" && one[name] !== 0);
  const columns = COLUMNS.filter(([name]) => name === "verdict" || name === "instruction" || used(name));

  const state = { q: "", sort: "", down: "" };
  for (const name of FILTERS) state[name] = "";
  let found = [];
  let shown = 0;

  function element(name, text, kind) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  }

  // ------------------------------------------------------------------------------------------------ what is found

  const valueOf = (one, name) => (one[name] === "" ? NONE : one[name]);

  const chosen = (one, except) =>
    FILTERS.every((name) => name === except || state[name] === "" || valueOf(one, name) === state[name]);

  function withTheWords() {
    const wanted = state.q.toLowerCase().split(/\s+/).filter((word) => word !== "" && word !== "-")
      .map((word) => (word.startsWith("-") ? [word.slice(1), false] : [word, true]));
    return attempts.filter((one) => wanted.every(([word, there]) => one.searched.includes(word) === there));
  }

  function compare(first, second) {
    const a = first[state.sort];
    const b = second[state.sort];
    const order = NUMBERS.has(state.sort) ? (a ?? -1) - (b ?? -1) : words.compare(a, b);
    return (state.down ? -order : order) || first.place - second.place;
  }

  function find() {
    const candidates = withTheWords();
    for (const name of FILTERS) fillChoice(name, candidates);
    found = candidates.filter((one) => chosen(one));
    if (state.sort) found.sort(compare);
    tell();
    byId("rows").replaceChildren();
    shown = 0;
    showMore();
    showHeads();
  }

  // ------------------------------------------------------------------------------------------------ what is shown

  function fillChoice(name, candidates) {
    const counts = new Map(attempts.map((one) => [valueOf(one, name), 0]));
    for (const one of candidates) {
      if (chosen(one, name)) counts.set(valueOf(one, name), counts.get(valueOf(one, name)) + 1);
    }
    const select = byId(name);
    select.replaceChildren(new Option("all", ""));
    for (const value of [...counts.keys()].sort(words.compare)) {
      const label = `${value === NONE ? "none" : value} (${counts.get(value)})`;
      select.append(new Option(label, value, false, value === state[name]));
    }
    if (select.value !== state[name]) state[name] = select.value = "";
    select.parentElement.hidden = counts.size < 2;
  }

  function tell() {
    const counts = new Map([["passed", 0], ["failed", 0]]);
    for (const one of found) counts.set(one.verdict, (counts.get(one.verdict) ?? 0) + 1);
    const judged = counts.get("passed") + counts.get("failed");
    const rate = judged ? `${(100 * counts.get("passed") / judged).toFixed(1)} %` : "–";
    const line = byId("counts");
    line.replaceChildren(element("b", `${found.length} of ${attempts.length} attempts`));
    for (const [verdict, count] of counts) line.append(" · ", element("span", `${count} ${verdict}`, `v ${verdict}`));
    line.append(" · pass rate ", element("b", rate), judged ? ` of ${judged} judged` : "");
    line.append(` · ${new Set(found.map((one) => one.instance)).size} instances`);
  }

  function showHeads() {
    byId("heads").replaceChildren(...columns.map(([name, title]) => {
      const head = element("th");
      const sorted = state.sort === name;
      head.scope = "col";
      if (sorted) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
      const button = element("button", title + (sorted ? (state.down ? " ↓" : " ↑") : ""));
      button.type = "button";
      button.addEventListener("click", () => {
        // Numbers are mostly looked at from the largest; the third click takes the sorting back.
        const first = NUMBERS.has(name) ? "1" : "";
        if (state.sort !== name) Object.assign(state, { sort: name, down: first });
        else if (state.down === first) state.down = first ? "" : "1";
        else Object.assign(state, { sort: "", down: "" });
        changed();
        byId("heads").children[columns.findIndex((column) => column[0] === name)].firstChild.focus();
      });
      head.append(button);
      return head;
    }));
  }

  function cell(one, name) {
    const value = one[name];
    if (name === "verdict") {
      const made = element("td");
      made.append(element("span", value, `v ${value}`));
      return made;
    }
    if (name === "instruction") {
      const made = element("td", undefined, "main");
      const link = element("a", value.trim().split("\n")[0].slice(0, 160) || one.id, "text");
      link.href = one.page;
      made.append(link, element("small", one.id));
      return made;
    }
    if (!NUMBERS.has(name)) return element("td", value, "text");
    const digits = name === "cost" ? 4 : name === "seconds" ? 1 : 0;
    return element("td", value === null ? "" : value.toFixed(digits), "number");
  }

  function showMore() {
    const next = found.slice(shown, shown + AT_ONCE);
    byId("rows").append(...next.map((one) => {
      const row = element("tr");
      row.append(...columns.map(([name]) => cell(one, name)));
      return row;
    }));
    shown += next.length;
    byId("more").hidden = shown >= found.length;
    byId("more").textContent = `Show more (${found.length - shown})`;
  }

  // ------------------------------------------------------------------------------------------------ what is asked for

  function changed() {
    const set = Object.entries(state).filter(([, value]) => value !== "");
    const hash = new URLSearchParams(set).toString();
    // The way back from an attempt leads to the same search.
    if (location.hash.slice(1) !== hash) location.replace(`#${hash}`);
    find();
  }

  function readHash() {
    const given = new URLSearchParams(location.hash.slice(1));
    for (const name of Object.keys(state)) state[name] = given.get(name) ?? "";
    if (!columns.some(([name]) => name === state.sort)) state.sort = state.down = "";
    byId("q").value = state.q;
    find();
  }

  byId("q").addEventListener("input", () => { state.q = byId("q").value; changed(); });
  for (const name of FILTERS) {
    byId(name).addEventListener("change", () => { state[name] = byId(name).value; changed(); });
  }
  byId("reset").addEventListener("click", () => {
    for (const name of Object.keys(state)) state[name] = "";
    byId("q").value = "";
    changed();
    byId("q").focus();
  });
  byId("more").addEventListener("click", showMore);
  new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting)) showMore();
  }, { rootMargin: "600px" }).observe(byId("more"));
  addEventListener("hashchange", () => {
    const now = new URLSearchParams(Object.entries(state).filter(([, value]) => value !== "")).toString();
    if (location.hash.slice(1) !== now) readHash();
  });

  function move(by) {
    const links = [...byId("rows").querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (at === 0 && by < 0) return byId("q").focus();
    if (at + by >= links.length && shown < found.length) {
      showMore();
      return move(by);
    }
    return links[Math.min(at + by, links.length - 1)]?.focus();
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const typing = event.target.tagName === "INPUT";
    const actions = { ArrowDown: () => move(1), ArrowUp: () => move(-1) };
    if (!typing) Object.assign(actions, { j: () => move(1), k: () => move(-1), "/": () => byId("q").focus() });
    if (typing && event.key === "Escape") actions.Escape = () => { state.q = byId("q").value = ""; changed(); };
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });

  const classes = Object.entries(lost).map(([name, count]) => `${count} ${name}`);
  if (classes.length) byId("lost").textContent = `Attempts that left no trajectory: ${classes.join(", ")}`;
  readHash();
})();
