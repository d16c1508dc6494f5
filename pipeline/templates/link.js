// Does what `npm link` does, without a network and without touching the tree: the package can be loaded by its name from
// anywhere, and its programs are on PATH.
const fs = require("fs");
const path = require("path");

if (fs.existsSync("package.json")) {
  const description = JSON.parse(fs.readFileSync("package.json", "utf8"));
  const name = description.name || path.basename(process.cwd());
  const place = path.join("/node_modules", name);
  fs.mkdirSync(path.dirname(place), { recursive: true });
  fs.symlinkSync(process.cwd(), place);
  const bin = description.bin || {};
  const programs = typeof bin === "string" ? { [path.basename(name)]: bin } : bin;
  for (const [program, file] of Object.entries(programs)) {
    // A program that is built first is not there yet.
    if (!fs.existsSync(file)) continue;
    const text = `#!/bin/sh\nexec node '${path.resolve(file)}' "$@"\n`;
    fs.writeFileSync(path.join("/usr/local/bin", path.basename(program)), text, { mode: 0o755 });
  }
}
