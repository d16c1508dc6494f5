// Runs a script that is meant for a browser, with stand-ins that answer to everything a browser is asked, and ends with 0
// when it ran to its end.
const fs = require("fs");
const path = require("path");
const vm = require("vm");
const { pathToFileURL } = require("url");

const anything = new Proxy(function () {}, {
  get(target, key) {
    if (key === Symbol.toPrimitive) return () => "";
    if (key === Symbol.iterator) return function* () {};
    // A list of nothing, and no promise: neither a loop nor an await over it lasts.
    if (key === "length" || key === "nodeType") return 0;
    if (key === "then") return undefined;
    if (key === "prototype") return target.prototype;
    return anything;
  },
  set: () => true,
  has: () => true,
  apply: () => anything,
  construct: () => anything,
});
const names = ["document", "navigator", "location", "history", "screen", "localStorage", "sessionStorage", "jQuery", "$",
  "HTMLElement", "Element", "Node", "Event", "CustomEvent", "MutationObserver", "Image", "XMLHttpRequest", "getComputedStyle",
  "matchMedia", "requestAnimationFrame", "addEventListener", "removeEventListener", "customElements", "CSS"];
const page = {};
for (const name of names) page[name] = anything;
for (const name of ["console", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "URL", "TextEncoder", "TextDecoder"]) page[name] = globalThis[name];

const file = path.resolve(process.argv[2]);
const text = fs.readFileSync(file, "utf8");
if (!text.replace(/\/\*[^]*?\*\/|\/\/.*|\s/g, "")) {
  console.log(`${file} is empty`);
  process.exit(1);
}

(async () => {
  try {
    const context = vm.createContext({ ...page });
    for (const name of ["window", "self", "top", "parent"]) vm.runInContext(`globalThis.${name} = globalThis`, context);
    vm.runInContext(text, context, { filename: file, timeout: 10000 });
  } catch (error) {
    if (error.name !== "SyntaxError" || !/import|export/.test(error.message)) throw error;
    for (const name of names) Object.defineProperty(globalThis, name, { value: anything, configurable: true, writable: true });
    globalThis.window = globalThis.self = globalThis;
    await import(pathToFileURL(file));
  }
  console.log(`ran ${file}`);
  process.exit(0);
})().catch((error) => {
  console.log(`did not run: ${error && error.stack ? String(error.stack).slice(0, 1500) : error}`);
  process.exit(1);
});
