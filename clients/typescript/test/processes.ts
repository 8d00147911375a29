/** Processes that the tests need: a server, and a provider of models. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type Server, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Interface, createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
const PYTHON = process.env["HOLDFAST_PYTHON"] ?? join(ROOT, ".venv/bin/python");
/** Servers of the tests do without the rules for secrets, which take seconds to load. */
const PLACES = [join(ROOT, "tests/support/without_extras"), join(ROOT, "src"), ROOT];

async function firstLine(lines: Interface): Promise<unknown> {
  const done = new AbortController();
  const { signal } = done;
  const next = Promise.race([once(lines, "line", { signal }), once(lines, "close", { signal })]);
  const [line] = (await next.finally(() => done.abort())) as [string?];
  if (line === undefined) {
    throw new Error("the process ended before it said where it listens");
  }
  return JSON.parse(line);
}

/** A real `holdfast serve`, which can be killed and started again on its port. */
export class ServeProcess {
  readonly folder = mkdtempSync(join(tmpdir(), "holdfast-client-"));
  readonly #settings: string;
  #process: ChildProcess | undefined;
  #port = 0;

  constructor(settings = "") {
    this.#settings = join(this.folder, "settings.toml");
    writeFileSync(this.#settings, settings);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  get port(): number {
    return this.#port;
  }

  async start(): Promise<this> {
    const given = ["--root", join(this.folder, "store"), "serve", "--port", String(this.#port)];
    this.#process = spawn(PYTHON, ["-m", "holdfast", ...given, "--config", this.#settings, "--json"], {
      cwd: ROOT,
      env: { ...process.env, PYTHONPATH: PLACES.join(":") },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const { stdout } = this.#process;
    if (stdout === null) {
      throw new Error("no output");
    }
    const said = (await firstLine(createInterface(stdout))) as { listening: string };
    this.#port = Number(new URL(said.listening).port);
    return this;
  }

  /** End it as a power cut does. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    if (running !== undefined && running.exitCode === null && running.signalCode === null) {
      const ended = once(running, "exit");
      running.kill(signal);
      await ended;
    }
  }
}

export interface Report {
  requests: number;
  invalid: string[];
  overLimit: number;
  refusedReasoning: number;
  withheld: number;
}

/** A provider of models that keeps the rules (`provider.py`). */
export class Provider {
  url = "";
  readonly #process: ChildProcess;
  readonly #lines: Interface;

  constructor(limit?: number) {
    const script = fileURLToPath(new URL("provider.py", import.meta.url));
    this.#process = spawn(PYTHON, [script, ...(limit === undefined ? [] : [String(limit)])], {
      env: { ...process.env, PYTHONPATH: PLACES.join(":") },
      stdio: ["pipe", "pipe", "inherit"],
    });
    if (this.#process.stdout === null) {
      throw new Error("no output");
    }
    this.#lines = createInterface(this.#process.stdout);
  }

  async start(): Promise<this> {
    this.url = ((await firstLine(this.#lines)) as { url: string }).url;
    return this;
  }

  /** Let the next requests fail, and tell what there was until now. */
  async tell(...fail: ("overflow" | "rate-limit" | "cut" | "cut-call")[]): Promise<Report> {
    const answer = firstLine(this.#lines);
    this.#process.stdin?.write(`${JSON.stringify({ fail })}\n`);
    return (await answer) as Report;
  }

  async stop(): Promise<void> {
    const ended = once(this.#process, "exit");
    this.#process.stdin?.end();
    await ended;
  }
}

/** A connection to a port that can be cut: everything that passes through it ends at once. */
export class Cutter {
  readonly #server: Server;
  #sockets: (() => void)[] = [];
  connections = 0;

  constructor(port: number) {
    this.#server = createServer((near) => {
      this.connections += 1;
      const far = connect(port, "127.0.0.1");
      const end = (): void => {
        near.destroy();
        far.destroy();
      };
      this.#sockets.push(end);
      for (const socket of [near, far]) {
        socket.on("error", end).on("close", end);
      }
      near.pipe(far).pipe(near);
    });
  }

  async start(): Promise<string> {
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    const address = this.#server.address();
    if (address === null || typeof address === "string") {
      throw new Error("no port");
    }
    return `http://127.0.0.1:${address.port}`;
  }

  cut(): void {
    for (const end of this.#sockets.splice(0)) {
      end();
    }
  }

  async stop(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, "close");
  }
}
