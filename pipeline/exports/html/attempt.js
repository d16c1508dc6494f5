"use strict";
(() => {
  const steps = [...document.querySelectorAll(".step")];
  const folded = [...document.querySelectorAll("details")];

  function step(by) {
    // From wherever the reader is: the step in focus, else the last one whose head is above the middle of the window.
    let at = steps.indexOf(document.activeElement?.closest(".step"));
    if (at < 0) at = steps.findLastIndex((one) => one.getBoundingClientRect().top < innerHeight / 4);
    const next = steps[Math.max(0, Math.min(at + by, steps.length - 1))];
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "start" });
  }

  const follow = (link) => document.querySelector(link)?.click();
  const actions = {
    j: () => step(1),
    k: () => step(-1),
    n: () => follow("a[rel=next]"),
    p: () => follow("a[rel=prev]"),
    u: () => follow("#up"),
    e: () => {
      const open = folded.some((one) => !one.open);
      for (const one of folded) one.open = open;
    },
  };

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = actions[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
})();
