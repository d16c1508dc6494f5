// Does for the project in the current folder, a copy of the tree, what a developer does: installs its dependencies with
// the package manager of its lock file, builds it where it has a step for that, and links it, so that the package can be
// loaded by its name from anywhere and its programs are on PATH.
//
// Usage: install_npm.js FOLDER-IN-THE-TREE [--use-only] [--no-lock] [--tolerant]
// The files of the tree stay as they are; it gets node_modules and what the build makes.
const fs = require("fs");
const path = require("path");
const { spawnSync } = require("child_process");

const tree = process.argv[2];
const options = new Set(process.argv.slice(3));
const copy = process.cwd();

// Programs that some packages fetch from elsewhere when they are installed, and that no build needs.
const SKIPPED = [
  "PUPPETEER_SKIP_DOWNLOAD", "PUPPETEER_SKIP_CHROMIUM_DOWNLOAD", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD",
  "ELECTRON_SKIP_BINARY_DOWNLOAD", "SENTRYCLI_SKIP_DOWNLOAD", "CHROMEDRIVER_SKIP_DOWNLOAD",
  "GECKODRIVER_SKIP_DOWNLOAD", "EDGEDRIVER_SKIP_DOWNLOAD", "SELENIUM_SKIP_DOWNLOAD", "DISABLE_OPENCOLLECTIVE", "ADBLOCK",
];
for (const name of SKIPPED) process.env[name] = "1";
Object.assign(process.env, {
  CYPRESS_INSTALL_BINARY: "0", HUSKY: "0", CI: "1", npm_config_audit: "false", npm_config_fund: "false",
  npm_config_update_notifier: "false", npm_config_loglevel: "error", YARN_NODE_LINKER: "node-modules",
  YARN_ENABLE_TELEMETRY: "0", YARN_ENABLE_IMMUTABLE_INSTALLS: "false", YARN_ENABLE_SCRIPTS: "false",
  YARN_CHECKSUM_BEHAVIOR: "update", NEXT_TELEMETRY_DISABLED: "1", NG_CLI_ANALYTICS: "false",
});

function run(command, seconds) {
  console.log(`$ ${command}`);
  const done = spawnSync("sh", ["-c", command], { encoding: "utf8", timeout: seconds * 1000, killSignal: "SIGKILL", maxBuffer: 1 << 28 });
  if (done.status !== 0) console.log(((done.stdout || "") + (done.stderr || "")).slice(-2500));
  if (done.error) console.log(String(done.error));
  return done.status === 0;
}

const exists = (name) => fs.existsSync(path.join(copy, name));
const read = (name) => JSON.parse(fs.readFileSync(path.join(copy, name), "utf8").replace(/^\uFEFF/, ""));
const write = (description) => fs.writeFileSync(path.join(copy, "package.json"), JSON.stringify(description, null, 2));

// Where no other machine can be asked, dependencies from a git server or a local file that is not there cannot be had.
function withoutForeign(description) {
  const foreign = /^(git|https?:|github:|bitbucket:|gitlab:|[\w.-]+\/[\w.-]+(#.*)?$)/;
  for (const section of ["dependencies", "devDependencies", "optionalDependencies"]) {
    for (const [name, wanted] of Object.entries(description[section] || {})) {
      const gone = /^(file|link):(.*)/.exec(wanted);
      if (foreign.test(wanted) || (gone && !fs.existsSync(path.join(copy, gone[2])))) {
        console.log(`left out: ${name} from ${wanted}`);
        delete description[section][name];
      }
    }
  }
}

function other(manager, description) {
  const asked = /^(\w+)@([\d.]+)/.exec(description.packageManager || "");
  const major = Number(process.versions.node.split(".")[0]);
  if (manager === "pnpm") {
    const lock = /lockfileVersion: '?([\d.]+)/.exec(fs.readFileSync(path.join(copy, "pnpm-lock.yaml"), "utf8"));
    const usual = Number(lock && lock[1]) < 6 ? "7" : Number(lock && lock[1]) < 9 ? "8" : "9";
    return run(`npm install -g --prefix /usr/local pnpm@${asked && asked[1] === "pnpm" && !(major < 22 && Number(asked[2].split(".")[0]) > 10) ? asked[2] : usual}`, 120);
  }
  const berry = /^__metadata:/m.test(fs.readFileSync(path.join(copy, "yarn.lock"), "utf8"));
  if (!berry) return run("npm install -g --prefix /usr/local yarn@1", 120);
  return run(`npm install -g --prefix /usr/local @yarnpkg/cli-dist@${asked && asked[1] === "yarn" ? asked[2] : "3"} --force`, 120);
}

function install(description) {
  const lock = !options.has("--no-lock");
  const wanted = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"].some((one) => Object.keys(description[one] || {}).length);
  if (!wanted && !description.workspaces && !exists("pnpm-workspace.yaml")) return true;
  const everything = "--ignore-scripts --legacy-peer-deps";
  const ways = [];
  if (lock && !options.has("--use-only")) {
    if (exists("pnpm-lock.yaml")) {
      ways.push(() => other("pnpm", description) && (run("pnpm install --ignore-scripts --frozen-lockfile --config.node-linker=hoisted", 150) || run("pnpm install --ignore-scripts --no-frozen-lockfile --config.node-linker=hoisted --config.strict-peer-dependencies=false", 200)));
    } else if (exists("package-lock.json") || exists("npm-shrinkwrap.json")) {
      ways.push(() => run(`npm ci ${everything}`, 150));
    } else if (exists("yarn.lock")) {
      const berry = /^__metadata:/m.test(fs.readFileSync(path.join(copy, "yarn.lock"), "utf8"));
      ways.push(() => other("yarn", description) && (berry ? run("yarn install", 150) : run("yarn install --ignore-scripts --ignore-engines --non-interactive --frozen-lockfile --network-timeout 60000 || yarn install --ignore-scripts --ignore-engines --non-interactive", 150)));
    }
  }
  const unlocked = () => {
    for (const name of ["package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", ".npmrc", "node_modules"]) fs.rmSync(path.join(copy, name), { recursive: true, force: true });
    withoutForeign(description);
    write(description);
  };
  if (!options.has("--use-only")) ways.push(() => { unlocked(); return run(`npm install ${everything}`, 150); });
  // npm resolves, and so fails on, what it omits: development dependencies are taken out before.
  ways.push(() => { unlocked(); write({ ...description, devDependencies: {} }); return run(`npm install --omit=dev ${everything}`, 200); });
  return ways.some((way) => way());
}

// Native parts of dependencies and what their own install steps make; a package without them may still be of use.
function finishDependencies() {
  if (!exists("node_modules")) return;
  const manager = exists("node_modules/.modules.yaml") ? "pnpm rebuild" : "npm rebuild --ignore-scripts=false";
  run(`${manager}`, 150);
}

function build(description) {
  const scripts = description.scripts || {};
  const main = [description.main, description.module, ...Object.values(typeof description.bin === "string" ? { bin: description.bin } : description.bin || {}), ...files(description.exports)];
  const missing = main.filter((one) => typeof one === "string" && !one.includes("*") && !/\.(json|d\.ts|css)$/.test(one)).some((one) => !exists(one) && !exists(`${one}.js`) && !exists(`${one}/index.js`));
  const steps = ["build", "prepare", "compile", "bundle", "dist", "prepublishOnly", "prepublish"].filter((one) => scripts[one] && !/^(husky|is-ci|patch-package|simple-git-hooks|lefthook)\b/.test(scripts[one]));
  // What is run before a package is published tests it as well: only where nothing else makes what is missing.
  if (!steps.length || (!missing && steps[0].startsWith("prepublish"))) return true;
  const manager = exists("pnpm-lock.yaml") ? "pnpm" : exists("yarn.lock") && fs.existsSync("/usr/local/bin/yarn") ? "yarn" : "npm";
  const built = run(`${manager} run ${steps[0]}`, 200) || (missing && steps[1] && run(`${manager} run ${steps[1]}`, 120)) || run(`NODE_OPTIONS=--openssl-legacy-provider ${manager} run ${steps[0]}`, 200);
  if (!built) console.log("what its build step makes is absent");
  return built || !missing;
}

function files(exported) {
  if (typeof exported === "string") return [exported];
  return exported && typeof exported === "object" ? Object.values(exported).flatMap(files).filter((one) => typeof one === "string" && one.startsWith("./")) : [];
}

function readIn(folder) {
  const file = path.join(folder, "package.json");
  return exists(file) ? read(file) : null;
}

// Folders of the packages of a repository that holds several.
function workspaces(description) {
  const listed = Array.isArray(description.workspaces) ? description.workspaces : (description.workspaces || {}).packages || [];
  const patterns = [...listed, ...(exists("pnpm-workspace.yaml") || exists("lerna.json") ? ["packages/*"] : [])];
  return patterns.flatMap((one) => {
    if (typeof one !== "string" || one.startsWith("!")) return [];
    const parent = one.replace(/\/\*+$/, "");
    if (parent === one) return [one];
    return exists(parent) ? fs.readdirSync(path.join(copy, parent)).map((name) => path.join(parent, name)) : [];
  });
}

// What was made in the copy, by the package manager and by the build, comes into the tree, as it would for a developer.
const LEFT = new Set(["package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", ".git", ".cache", ".yarn", ".npmrc", ".eslintcache"]);
function bring(folder) {
  for (const name of fs.readdirSync(path.join(copy, folder))) {
    const inside = path.join(folder, name);
    const [from, to] = [path.join(copy, inside), path.join(tree, inside)];
    const known = fs.existsSync(to);
    if (LEFT.has(name) || (known && (name === "node_modules" || !fs.lstatSync(from).isDirectory()))) continue;
    if (known) bring(inside);
    else spawnSync("mv", [from, to]);
  }
}

function link(description) {
  const name = description.name || path.basename(tree);
  const place = path.join("/node_modules", name);
  fs.mkdirSync(path.dirname(place), { recursive: true });
  if (!fs.existsSync(place)) fs.symlinkSync(tree, place);
  for (const folder of workspaces(description)) {
    const part = readIn(folder);
    const there = part && part.name && path.join("/node_modules", part.name);
    if (!there || fs.existsSync(there)) continue;
    fs.mkdirSync(path.dirname(there), { recursive: true });
    fs.symlinkSync(path.join(tree, folder), there);
  }
  const bin = description.bin || {};
  const programs = typeof bin === "string" ? { [path.basename(name)]: bin } : bin;
  for (const [program, file] of Object.entries(programs)) {
    // A program that is built first may not be there.
    if (!fs.existsSync(path.join(tree, file))) continue;
    const text = `#!/bin/sh\nexec node '${path.join(tree, file)}' "$@"\n`;
    fs.writeFileSync(path.join("/usr/local/bin", path.basename(program)), text, { mode: 0o755 });
  }
}

if (exists("package.json")) {
  const description = read("package.json");
  const before = JSON.stringify(description);
  if (!install(description) && !options.has("--tolerant")) process.exit(1);
  finishDependencies();
  if (!build(JSON.parse(before)) && !options.has("--tolerant")) process.exit(1);
  link(JSON.parse(before));
  bring("");
}
