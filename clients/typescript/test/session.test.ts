/** Sessions over a real server: messages, streams that are cut, kills, and errors by their types. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, before, test } from "node:test";
import {
  BadRequest,
  Conflict,
  ConnectionFailed,
  HoldfastClient,
  NotFound,
  RateLimited,
  RequestRefused,
  type SessionEvent,
  Unauthorized,
  isRecord,
} from "../src/index.ts";
import { Cutter, Provider, ServeProcess } from "./processes.ts";

let provider: Provider;
let server: ServeProcess;

const settings = (model: string): string => `
[server]
requests_burst = 100000
requests_per_second = 100000.0
[gateway]
claim_seconds = 2.0
poll_seconds = 0.2
waiting_max = 3
[agents.main]
model = "${model}"
checkpoints = "off"
tools = ["clients.typescript.test.provider:read"]
[agents.plain]
model = "offline"
`;

before(async () => {
  provider = await new Provider().start();
  server = await new ServeProcess(settings(`anthropic:claude-opus-4-8@${provider.url}`)).start();
});

after(async () => {
  await server.stop();
  await provider.stop();
});

test("a message is answered, and everything about the session can be read", async () => {
  const client = new HoldfastClient({ baseUrl: server.url });
  const session = client.session("read", "plain");
  assert.equal((await session.open("a label")).label, "a label");
  assert.match(await session.ask("hello"), /offline model/);
  const page = await session.history();
  assert.deepEqual(
    (page.messages ?? []).map((message) => message["role"]),
    ["user", "assistant"],
  );
  assert.ok((await session.status()).window.tokens > 0);
  assert.ok((await session.context()).ledger.length > 0);
  assert.deepEqual((await session.approvals()).calls, []);
  assert.equal((await session.cancel()).cancelled, false);
  assert.ok((await client.sessions()).sessions.some((row) => row.id === "read"));
});

test("a message is stored once under its key, and another one under it is refused", async () => {
  const session = new HoldfastClient({ baseUrl: server.url }).session("once", "plain");
  await session.open();
  const first = await session.send("one", { key: "once-1" });
  const again = await session.send("one", { key: "once-1" });
  assert.equal(again.id, first.id);
  await assert.rejects(session.send("two", { key: "once-1" }), (error: unknown) => {
    assert.ok(error instanceof Conflict);
    assert.equal(error.status, 409);
    assert.equal(error.code, "key-reused");
    return true;
  });
});

test("a stream that is cut goes on: each record comes once, in order", async (t) => {
  const cutter = new Cutter(server.port);
  const baseUrl = await cutter.start();
  t.after(() => cutter.stop());
  const session = new HoldfastClient({ baseUrl }).session("cut", "plain");
  await session.open();
  const stop = new AbortController();
  t.after(() => stop.abort());
  const seen: string[] = [];
  let messages = 0;
  let opened = 0;
  let onAnswer = (): void => undefined;
  const following = (async () => {
    for await (const event of session.events({ signal: stop.signal })) {
      opened += event.event === "open" ? 1 : 0;
      if (event.event === "record") {
        seen.push(event.data.id);
        messages += isRecord(event.data, "user") || isRecord(event.data, "assistant") ? 1 : 0;
      }
      if (event.event === "open" || (event.event === "record" && isRecord(event.data, "assistant"))) {
        onAnswer();
      }
    }
  })();
  const next = (): Promise<void> => new Promise((resolve) => (onAnswer = resolve));
  await next(); // the stream is open
  for (let number = 0; number < 4; number += 1) {
    await session.send(`message ${number}`);
    cutter.cut();
    while (messages < 2 * (number + 1)) {
      await next();
    }
  }
  stop.abort();
  await assert.rejects(following, { name: "AbortError" });
  const page = await session.history({ limit: 200 });
  const said = (page.messages ?? []).map((message) => message["id"]);
  assert.deepEqual(
    seen.filter((id) => said.includes(id)),
    said,
  );
  assert.equal(new Set(seen).size, seen.length);
  assert.ok(opened > 1);
});

test("a server that is killed amid a turn goes on with it, and so does the stream", async () => {
  const session = new HoldfastClient({ baseUrl: server.url }).session("killed");
  await session.open();
  const events: SessionEvent[] = [];
  let kills = 0;
  const stream = session.stream("please read");
  for (;;) {
    const { done, value } = await stream.next();
    if (done) {
      assert.equal(value.state, "answered");
      break;
    }
    events.push(value);
    if (value.event === "turn" && value.data.event === "ToolStarted" && kills === 0) {
      kills += 1;
      await server.kill();
      await server.start();
    }
  }
  assert.equal(kills, 1);
  const records = events.flatMap((each) => (each.event === "record" ? [each.data] : []));
  const users = records.filter((record) => isRecord(record, "user"));
  assert.deepEqual(
    users.map((record) => record.content),
    ["please read"],
  );
  assert.ok(events.filter((each) => each.event === "open").length > 1);
  const last = records.filter((record) => isRecord(record, "assistant")).at(-1);
  assert.match(JSON.stringify(last?.content), /Answer/);
  assert.deepEqual((await provider.tell()).invalid, []);
});

test("refusals have types", async () => {
  const client = new HoldfastClient({ baseUrl: server.url, retrySeconds: 0 });
  await assert.rejects(client.session("nowhere").status(), NotFound);
  await assert.rejects(client.session("..").open(), RequestRefused);
  const session = client.session("refused");
  await session.open();
  await assert.rejects(session.loop({ model: "offline" }).prepare(), (error: unknown) => {
    assert.ok(error instanceof BadRequest);
    assert.match(error.hint, /anthropic:NAME/);
    return true;
  });
  const send = async (): Promise<void> => {
    for (let number = 0; number < 12; number += 1) {
      await session.send(`message ${number}`);
    }
  };
  await assert.rejects(send(), (error: unknown) => {
    assert.ok(error instanceof RateLimited);
    assert.equal(error.status, 429);
    assert.ok((error.retryAfter ?? 0) > 0);
    return true;
  });
  await session.cancel();
});

test("a token is needed where the server has tokens", async () => {
  const token = "holdfast_0123456789abcdefghijklmnopqrstuvwxyz";
  const sha256 = createHash("sha256").update(token).digest("hex");
  const table = ['name = "laptop"', `sha256 = "${sha256}"`, 'owner = "alice"', 'scope = "write"'];
  const locked = await new ServeProcess(["[[tokens]]", ...table].join("\n")).start();
  try {
    const client = new HoldfastClient({ baseUrl: locked.url, token });
    assert.equal((await client.session("mine").open()).owner, "alice");
    await assert.rejects(new HoldfastClient({ baseUrl: locked.url }).sessions(), Unauthorized);
  } finally {
    await locked.stop();
  }
});

test("a server that is not there is said so", async () => {
  const client = new HoldfastClient({ baseUrl: "http://127.0.0.1:9", retrySeconds: 0 });
  await assert.rejects(client.sessions(), ConnectionFailed);
});
