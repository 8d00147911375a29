/** The package as a user gets it: packed, installed, typed; the examples of its page run. */

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Provider, ServeProcess } from "./processes.ts";

const CLIENT = fileURLToPath(new URL("../", import.meta.url));
const MODULES = join(CLIENT, "node_modules");
const folder = mkdtempSync(join(tmpdir(), "holdfast-package-"));
const project = join(folder, "project");

let provider: Provider;
let server: ServeProcess;

/** Run a program in the project of a user. */
function run(command: string, ...args: string[]): string {
  const ran = spawnSync(command, args, { cwd: project, encoding: "utf8" });
  assert.equal(ran.status, 0, `${command} ${args.join(" ")}\n${ran.stdout}\n${ran.stderr}`.slice(0, 4_000));
  return ran.stdout;
}

function tsc(...args: string[]): void {
  const strict = ["--strict", "--noUncheckedIndexedAccess", "--exactOptionalPropertyTypes"];
  const kind = ["--noEmit", "--target", "es2022", "--module", "nodenext"];
  run(process.execPath, join(MODULES, "typescript/bin/tsc"), ...strict, ...kind, ...args);
}

before(async () => {
  provider = await new Provider().start();
  server = await new ServeProcess().start();
  mkdirSync(project);
  execFileSync("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: CLIENT });
  writeFileSync(join(project, "package.json"), '{"name": "empty", "private": true, "type": "module"}');
  const { version } = JSON.parse(readFileSync(join(CLIENT, "package.json"), "utf8")) as {
    version: string;
  };
  const packed = join(folder, `holdfast-client-${version}.tgz`);
  run("npm", "install", "--silent", "--offline", "--ignore-scripts", "--no-audit", packed);
});

after(async () => {
  await server.stop();
  await provider.stop();
  rmSync(folder, { recursive: true, force: true });
});

test("the schema is that of the server", () => {
  execFileSync(process.execPath, ["scripts/generate.ts", "--check"], { cwd: CLIENT });
});

test("nothing is untyped", () => {
  for (const name of ["ai-sdk", "errors", "events", "http", "index", "loop", "session"]) {
    const text = readFileSync(join(CLIENT, "src", `${name}.ts`), "utf8");
    assert.doesNotMatch(text, /[:<|] *any\b|as any|@ts-/, name);
  }
});

test("the package has what it needs and no more", () => {
  const listed = run("npm", "ls", "--all", "--parseable").trim().split("\n");
  assert.equal(listed.length, 2, "the project and one package: no dependencies");
  const inside = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: CLIENT, encoding: "utf8" });
  const [found] = Object.values(JSON.parse(inside) as Record<string, { files: { path: string }[] }>);
  const paths = found?.files.map((file) => file.path) ?? [];
  assert.ok(paths.includes("dist/index.d.ts") && paths.includes("README.md"), String(paths));
  assert.ok(paths.every((path) => /^(dist\/|README|LICENSE|package\.json)/.test(path)), String(paths));
});

test("its own types are whole", () => {
  writeFileSync(join(project, "own.ts"), 'export * from "holdfast-client";\n');
  tsc("--lib", "es2023,dom,dom.iterable", "own.ts"); // a library's, too, are checked here
});

test("the examples of its page are typed, and run", () => {
  const page = readFileSync(join(CLIENT, "README.md"), "utf8");
  const examples = [...page.matchAll(/```ts\n(.*?)```/gs)].map((match) => match[1] ?? "");
  assert.equal(examples.length, 4);
  const given = [
    "const weather = { name: 'get_weather', description: 'The weather of a city.', parameters: { type: 'object' } };",
    `const baseURL = '${provider.url}/v1';`,
    "const address = `${baseURL}/messages`;",
    "const headers = { 'content-type': 'application/json', 'anthropic-version': '2023-06-01' };",
    "process.env['ANTHROPIC_API_KEY'] = 'test';",
  ];
  const text = [...examples, "console.log(reply.text, text);"].join("\n");
  const imports = text.match(/^import .*$/gm) ?? [];
  const body = text.replace(/^import .*$/gm, "").replace("http://127.0.0.1:8484", server.url);
  writeFileSync(join(project, "example.ts"), [...imports, ...given, body].join("\n"));
  for (const name of ["ai", "@ai-sdk", "@types", "typescript"]) {
    symlinkSync(join(MODULES, name), join(project, "node_modules", name));
  }
  tsc("--types", "node", "--skipLibCheck", "example.ts");
  const said = run(process.execPath, "example.ts");
  assert.match(said, /offline model/);
  assert.match(said, /Answer \d+\. Answer \d+\./);
});
