// Loads the package in the folder that the first argument names, as another package would, and ends with 0 when its main
// file ran and is more than an empty one.
const fs = require("fs");
const path = require("path");
const { pathToFileURL } = require("url");

const folder = fs.realpathSync(process.argv[2]);
const description = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));

function chosen(target) {
  if (typeof target === "string") return target;
  if (Array.isArray(target)) return target.map(chosen).find(Boolean);
  if (!target) return undefined;
  for (const condition of ["node", "require", "import", "default", "module"]) {
    const found = chosen(target[condition]);
    if (found) return found;
  }
  return undefined;
}

function mainFile() {
  const all = description.exports;
  const entry = all && typeof all === "object" && !Array.isArray(all) && Object.keys(all).some((key) => key.startsWith("."));
  const target = all ? chosen(entry ? all["."] : all) : undefined;
  if (target) return path.join(folder, target);
  try {
    return require.resolve(folder);
  } catch (error) {
    if (description.module) return path.join(folder, description.module);
    throw error;
  }
}

async function load(file) {
  try {
    return require(file);
  } catch (error) {
    if (error.code !== "ERR_REQUIRE_ESM" && error.code !== "ERR_REQUIRE_ASYNC_MODULE" && !/Cannot use import statement|Unexpected token '?export/.test(error.message)) throw error;
    return import(pathToFileURL(file));
  }
}

(async () => {
  const file = mainFile();
  if (!/\.[cm]?js$|\.node$/.test(file)) throw new Error(`${file} is no program`);
  if (!fs.readFileSync(file, "utf8").replace(/\/\*[^]*?\*\/|\/\/.*|\s/g, "")) throw new Error(`${file} is empty`);
  const got = await load(file);
  const names = typeof got === "function" ? [`function ${got.name}`] : Object.keys(got || {});
  console.log(`loaded ${file}: ${names.slice(0, 20).join(", ") || "nothing exported"}`);
  process.exit(0);
})().catch((error) => {
  console.log(`not loaded: ${error && error.stack ? error.stack.slice(0, 1500) : error}`);
  process.exit(1);
});
